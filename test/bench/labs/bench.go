// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labs measures pods of the lab: their packets, their start and their interfaces.
// References are on the same lab, or on a second one with the reference plugins.
package labs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// setUpTime bounds the preparation before the first measurement.
const setUpTime = 3 * time.Minute

// Bench measures pods of the lab.
type Bench struct {
	root   string
	rounds int
	// pods of one wave.
	pods  int
	out   io.Writer
	step  func(string)
	meter packets.Meter
	lab   *cluster.Cluster
	stage *scene.Scene
	// tool is the test tool as a program of this machine.
	tool string
}

// New returns a Bench of the work tree with this root folder, without a lab yet. It measures each
// rate for a span of time, starts a number of pods in one wave, and writes tables to out and its
// progress to step.
func New(root string, rounds int, span time.Duration, pods int, out io.Writer, step func(string)) *Bench {
	return &Bench{
		root:   root,
		rounds: rounds,
		pods:   pods,
		out:    out,
		step:   step,
		meter:  packets.NewMeter(rounds, span, step),
	}
}

// BringUp brings up the lab, which stays, and builds the test tool.
func (b *Bench) BringUp(ctx context.Context) (removeTool func() error, err error) {
	if b.lab, err = cluster.Up(ctx, b.root, cluster.Options{Progress: b.step}); err != nil {
		return nil, fmt.Errorf("bring up the lab: %w", err)
	}
	if b.stage, err = scene.New(b.lab.Config(), b.lab); err != nil {
		return nil, err
	}
	return b.buildTool(ctx)
}

// buildTool builds the test tool for use outside of pods.
func (b *Bench) buildTool(ctx context.Context) (remove func() error, err error) {
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
func (b *Bench) tenant(ctx context.Context, name string) (tenant *scene.Tenant, remove func() error, err error) {
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
