// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/vm/debian"
	"github.com/alioth-net/alioth/test/vm/equipment"
	"github.com/alioth-net/alioth/test/vm/guest"
	"github.com/alioth-net/alioth/test/vm/qemu"
)

// Options say which tests to run.
type Options struct {
	// Root is the project's root folder.
	Root     string
	Kernels  []Kernel
	Packages []Package
	// Pattern selects tests as `go test -run` does; empty for all.
	Pattern string
	// Everything keeps the tests that packages omit on some kernels.
	Everything bool
	// CPUs of each machine.
	CPUs int
	// Devices are further devices of each machine, Modules the modules for them.
	Devices, Modules []string
	// Out gets the reports, Progress one line per step.
	Out io.Writer
	// Log gets all output of the tests, and is nil for no output. With several kernels it gets the
	// output of their machines at the same time.
	Log io.Writer
	// Events adds to each report an event per test, as `go test -json` prints them.
	Events   bool
	Progress func(line string)
}

// Run runs the packages' tests on the kernels, in one machine for each at the same time, and
// returns their number. It returns no error for failed tests.
func Run(ctx context.Context, o Options) (Total, error) {
	dir := filepath.Join(o.Root, ".vm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Total{}, fmt.Errorf("make a folder for machines: %w", err)
	}
	o.Progress("compiling tests")
	programs, err := compile(ctx, o.Root, dir, o.Packages)
	if err != nil {
		return Total{}, err
	}
	cacheDir, err := build.DefaultCache()
	if err != nil {
		return Total{}, err
	}
	r := &runner{Options: o, dir: dir, programs: programs, cache: build.Cache{Dir: cacheDir, Progress: o.Progress}}
	if r.emulator, err = qemu.Fetch(ctx, r.cache); err != nil {
		return Total{}, err
	}
	errs := make([]error, len(o.Kernels))
	var wg sync.WaitGroup
	for i, kernel := range o.Kernels {
		wg.Go(func() { errs[i] = r.runOn(ctx, kernel) })
	}
	wg.Wait()
	return r.total, errors.Join(errs...)
}

// runner is the common part of the machines.
type runner struct {
	Options
	dir      string
	programs []program
	cache    build.Cache
	emulator qemu.Emulator

	mu    sync.Mutex
	total Total
}

func (r *runner) runOn(ctx context.Context, kernel Kernel) error {
	machine, err := r.prepare(ctx, kernel)
	if err != nil {
		return fmt.Errorf("linux %s: %w", kernel.Series, err)
	}
	ctx, cancel := context.WithTimeout(ctx, machineLimit)
	defer cancel()
	r.Progress("booting linux " + kernel.Series)
	err = qemu.Run(ctx, r.emulator, machine, func(results io.Reader) error {
		return r.follow(ctx, kernel, results)
	})
	if err != nil {
		return fmt.Errorf("linux %s: %w", kernel.Series, err)
	}
	return nil
}

// prepare makes the files that a machine with this kernel boots.
func (r *runner) prepare(ctx context.Context, kernel Kernel) (qemu.Machine, error) {
	linux, err := debian.Fetch(ctx, r.cache, kernel.Release)
	if err != nil {
		return qemu.Machine{}, err
	}
	names := slices.Concat(equipment.Modules(), kernel.Modules, r.Modules)
	if kernel.Hardware {
		names = append(names, equipment.HardwareModules()...)
	}
	files, err := linux.Files(names)
	if err != nil {
		return qemu.Machine{}, err
	}
	image := filepath.Join(r.dir, kernel.Series+".cpio")
	chosen := choice{
		series:      kernel.Series,
		hardware:    kernel.Hardware,
		pattern:     r.Pattern,
		everything:  r.Everything,
		environment: environmentOf(os.Environ()),
	}
	plan := chosen.plan(r.programs, files)
	if len(plan.Tests) == 0 {
		return qemu.Machine{}, errors.New(
			"none of the tests runs on this kernel: choose another one with --kernels, see test/vm/suite.go",
		)
	}
	err = writeImage(ctx, image, filepath.Join(r.dir, "init"), plan, r.programs, files)
	machine := qemu.Machine{
		Kernel: linux.Image, Initramfs: image, Console: filepath.Join(r.dir, kernel.Series+".console.log"),
		CPUs: r.CPUs, Memory: memory,
	}
	if kernel.Hardware {
		equipment.AddAdapter(&machine, equipment.OpenCable, equipment.SomeMAC())
	}
	machine.Devices = append(machine.Devices, r.Devices...)
	return machine, err
}

// follow reads the guest's messages to the last one.
func (r *runner) follow(ctx context.Context, kernel Kernel, results io.Reader) error {
	// While it runs, this shows how far it is.
	live, err := os.Create(filepath.Join(r.dir, kernel.Series+".tests.log"))
	if err != nil {
		return fmt.Errorf("make a log of tests: %w", err)
	}
	defer live.Close()
	log := io.Writer(live)
	if r.Log != nil {
		log = io.MultiWriter(live, r.Log)
	}
	decoder := json.NewDecoder(results)
	output, began := map[string]*bytes.Buffer{}, time.Now()
	for {
		var m guest.Message
		err := decoder.Decode(&m)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the machine did not finish: %w", ctx.Err())
		case err != nil:
			return fmt.Errorf("the machine ended before its tests did: %w", err)
		case m.Failure != "" && m.Finished:
			return fmt.Errorf("init: %s", m.Failure)
		case m.Finished:
			return nil
		case m.Release != "":
			r.Progress(fmt.Sprintf("linux %s is up", m.Release))
			began = time.Now()
		case m.Ended:
			if err := r.report(ctx, kernel, m, output[m.Package], time.Since(began)); err != nil {
				return err
			}
			began = time.Now()
		default:
			if output[m.Package] == nil {
				output[m.Package] = &bytes.Buffer{}
			}
			output[m.Package].Write(m.Output)
			_, _ = log.Write(m.Output)
		}
	}
}

// report prints and counts the output of a package's tests.
func (r *runner) report(
	ctx context.Context,
	kernel Kernel,
	ended guest.Message,
	output *bytes.Buffer,
	took time.Duration,
) error {
	if output == nil {
		output = &bytes.Buffer{}
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-p", ended.Package)
	cmd.Stdin = output
	events, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run go tool test2json: %w", err)
	}
	report, err := readEvents(bytes.NewReader(events))
	if err != nil {
		return err
	}
	report.Package, report.Failure, report.Took = ended.Package, ended.Failure, took
	report.Complete = slices.ContainsFunc(
		r.programs,
		func(p program) bool { return p.importPath == ended.Package && p.hardware },
	)
	r.mu.Lock()
	defer r.mu.Unlock()
	report.write(r.Out, kernel.Series)
	r.total.add(report)
	if r.Events {
		return report.writeEvents(r.Out, kernel.Series)
	}
	report.writeFailures(r.Out)
	return nil
}
