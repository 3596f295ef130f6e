// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/alioth-net/alioth/test/bench/backends"
	"github.com/alioth-net/alioth/test/bench/controlplane"
	"github.com/alioth-net/alioth/test/bench/fullnode"
	"github.com/alioth-net/alioth/test/bench/labs"
)

// bench is one run.
type bench struct {
	options
	out   io.Writer
	start time.Time
}

// part is a part of a run that can be left out.
type part struct {
	name string
	run  func(context.Context) error
}

func run(ctx context.Context, o options, out io.Writer) error {
	b := &bench{options: o, out: out, start: time.Now()}
	control := controlplane.New(o.root, o.rounds, o.profile, out, b.step)
	full := fullnode.New(o.root, o.rounds, o.span, out, b.step)
	// First the parts without a lab: a lab is never quite idle.
	if err := b.runAll(ctx, []part{
		{"operator", control.Rates},
		{"admission", control.Admission},
		{"scale", full.Scale},
		{"services", full.Services},
		{"backends", backends.New(o.root, out, b.step).Measure},
	}); err != nil {
		return err
	}
	lab := labs.New(o.root, o.rounds, o.span, o.pods, out, b.step)
	inLab := []part{{"datapath", lab.Datapath}, {"pods", lab.Waves}, {"interfaces", lab.Interfaces}, {"reach", lab.Reach}}
	if !slices.ContainsFunc(inLab, func(p part) bool { return o.has(p.name) }) {
		return nil
	}
	removeTool, err := lab.BringUp(ctx)
	if err != nil {
		return err
	}
	return errors.Join(b.runAll(ctx, inLab), removeTool())
}

// runAll runs the parts that were asked for.
func (b *bench) runAll(ctx context.Context, parts []part) error {
	for _, p := range parts {
		if !b.has(p.name) {
			continue
		}
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	return nil
}

// step prints the present step.
func (b *bench) step(text string) {
	fmt.Fprintf(b.out, "[%6.1fs] %s\n", time.Since(b.start).Seconds(), text)
}
