// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// setUpTime bounds what is needed before anything is measured.
const setUpTime = 3 * time.Minute

// bench is one run.
type bench struct {
	options
	out   io.Writer
	start time.Time
	lab   *cluster.Cluster
	stage *scene.Scene
	meter packets.Meter
	// tool is the test tool as a program of this machine.
	tool string
}

// part is a part of a run that can be left out.
type part struct {
	name string
	run  func(context.Context) error
}

func run(ctx context.Context, o options, out io.Writer) error {
	b := &bench{options: o, out: out, start: time.Now()}
	b.meter = packets.NewMeter(o.rounds, o.span, b.step)
	// First what needs no lab: a lab is never quite idle.
	if err := b.runAll(ctx, []part{{"operator", b.rates}, {"admission", b.admission}, {"scale", b.scale}, {"services", b.services}, {"backends", b.backends}}); err != nil {
		return err
	}
	inLab := []part{{"datapath", b.datapath}, {"pods", b.waves}, {"interfaces", b.interfaces}, {"reach", b.reach}}
	if !slices.ContainsFunc(inLab, func(p part) bool { return o.has(p.name) }) {
		return nil
	}
	removeTool, err := b.bringUp(ctx)
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

// bringUp brings up the lab, which stays, and builds the test tool.
func (b *bench) bringUp(ctx context.Context) (removeTool func() error, err error) {
	if b.lab, err = cluster.Up(ctx, b.root, cluster.Options{Progress: b.step}); err != nil {
		return nil, fmt.Errorf("bring up the lab: %w", err)
	}
	if b.stage, err = scene.New(b.lab.Config(), b.lab); err != nil {
		return nil, err
	}
	return b.buildTool(ctx)
}

// step prints what happens now.
func (b *bench) step(text string) {
	fmt.Fprintf(b.out, "[%6.1fs] %s\n", time.Since(b.start).Seconds(), text)
}

// buildTool builds the test tool for use outside of pods.
func (b *bench) buildTool(ctx context.Context) (remove func() error, err error) {
	folder, err := os.MkdirTemp("", "alioth-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the test tool: %w", err)
	}
	b.tool = filepath.Join(folder, "testtool")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.tool, "./test/testtool")
	build.Dir, build.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the test tool: %w\n%s", err, out), os.RemoveAll(folder))
	}
	return func() error { return os.RemoveAll(folder) }, nil
}

// tenant creates a tenant for a part of the bench; remove deletes it again.
func (b *bench) tenant(ctx context.Context, name string) (tenant *scene.Tenant, remove func() error, err error) {
	setUp, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	tenant, err = b.stage.SetUp(setUp, scene.TenantSpec{
		Name: name, CIDRs: []string{"10.50.0.0/16", "fd10:50::/48"},
		Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.50.0.0/20", "fd10:50:0:1::/64"}}},
	})
	remove = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpTime)
		defer cancel()
		return b.stage.TearDown(ctx, tenant)
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return tenant, remove, nil
}
