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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/lanes/events"
)

const (
	// grace is the time that an interrupted step has to clean up before it is killed.
	grace = time.Minute
	// lowPriority is the nice value of lanes that leave the processors to others.
	lowPriority = 10
)

// run is several lanes side by side.
type run struct {
	Lanes []lane
	// Out gets every lane's lines and the table, Dir the whole output of each lane.
	Out io.Writer
	Dir string
	// Repeats are the steps whose failed tests are repeated one by one.
	Repeats []string
	// Command prepares a step, with further variables of the environment.
	Command func(step string, variables ...string) *exec.Cmd

	mu    sync.Mutex // guards Out
	began time.Time
	// awaited has a gate for each step that a lane waits for.
	awaited map[string]*gate
}

// gate is open once a step has ended, or will not begin.
type gate struct {
	once sync.Once
	way  chan struct{}
}

func (g *gate) open() { g.once.Do(func() { close(g.way) }) }

// outcome is the result of a step.
type outcome struct {
	Lane, Step string
	Took       time.Duration
	Err        error
	Tests      []events.Test
	Failures   []events.Failure
	// Last are the last lines that the step printed.
	Last []string
	// Repeats are the repetitions of Failures.
	Repeats []repeat
}

// do runs the lanes, repeats tests that failed, prints the table and reports whether the run
// passed.
func (r *run) do(ctx context.Context) (passed bool) {
	r.began = time.Now()
	results := make([][]outcome, len(r.Lanes))
	r.awaited = map[string]*gate{}
	for _, l := range r.Lanes {
		if l.Wait != "" {
			r.awaited[l.Wait] = &gate{way: make(chan struct{})}
		}
	}
	var wg sync.WaitGroup
	for i, l := range r.Lanes {
		wg.Go(func() { results[i] = r.lane(ctx, l) })
	}
	wg.Wait()
	r.repeatAll(ctx, results)
	all := slices.Concat(results...)
	passed = ctx.Err() == nil && !slices.ContainsFunc(all, outcome.failed) && flaky(all) <= mostFlaky
	writeTable(r.Out, all, time.Since(r.began), passed)
	writeFailures(r.Out, all)
	writeFlaky(r.Out, all)
	return passed
}

// end tells the lanes that wait for a step that it has ended.
func (r *run) end(step string) {
	if g, ok := r.awaited[step]; ok {
		g.open()
	}
}

// lane runs a lane's steps, and in any case the steps behind them.
func (r *run) lane(ctx context.Context, l lane) (done []outcome) {
	for _, step := range l.Steps {
		defer r.end(step) // also of steps that an interrupt keeps from their beginning
	}
	if l.Wait != "" {
		<-r.awaited[l.Wait].way
	}
	log, err := r.openLog(l.Name)
	if err != nil {
		return []outcome{{Lane: l.Name, Step: "log", Err: err}}
	}
	defer log.Close()
	for _, step := range l.Steps {
		if ctx.Err() != nil {
			break
		}
		done = append(done, r.step(ctx, l, step, log))
		r.end(step)
	}
	if l.After != "" {
		done = append(done, r.step(context.WithoutCancel(ctx), l, l.After, log))
	}
	return done
}

func (r *run) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for logs: %w", err)
	}
	return os.Create(r.logOf(name))
}

func (r *run) logOf(name string) string { return filepath.Join(r.Dir, name+".log") }

// step runs one step to its end.
func (r *run) step(ctx context.Context, l lane, step string, log io.Writer) outcome {
	o := outcome{Lane: l.Name, Step: step}
	r.print(l.Name, "begin "+step)
	var reader events.Reader
	reader.Print = func(line string) {
		r.print(l.Name, line)
		o.Last = append(o.Last[max(0, len(o.Last)-shownLines+1):], line)
	}
	o.Took, o.Err = r.perform(ctx, r.Command(step), l.Low, &reader, log)
	o.Tests, o.Failures = reader.Tests, reader.Failures
	r.print(l.Name, fmt.Sprintf("%s %s after %s", verdict(o.Err), step, o.Took.Round(time.Second)))
	return o
}

// verdict returns a word for the beginning of a line.
func verdict(err error) string {
	if err != nil {
		return "FAILED"
	}
	return "ok    "
}

// perform runs a command to its end, whose output a reader and a log get.
func (r *run) perform(
	ctx context.Context,
	cmd *exec.Cmd,
	low bool,
	reader *events.Reader,
	log io.Writer,
) (took time.Duration, err error) {
	began := time.Now()
	lines := &events.Lines{Take: reader.Line}
	out := io.MultiWriter(log, lines)
	cmd.Stdout, cmd.Stderr = out, out // the same writer, so that no two lines are written at once
	err = wait(ctx, cmd, low)
	lines.Flush()
	reader.Close()
	return time.Since(began), err
}

// wait runs a command in a process group of its own, which all get to know when
// the run is interrupted.
func wait(ctx context.Context, cmd *exec.Cmd, low bool) error {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	// A process that outlives the step must not keep the lane by its output.
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return err
	}
	group := cmd.Process.Pid
	if low {
		if err := unix.Setpriority(unix.PRIO_PGRP, group, lowPriority); err != nil {
			return errors.Join(fmt.Errorf("lower the priority: %w", err), unix.Kill(-group, unix.SIGKILL), cmd.Wait())
		}
	}
	ended := make(chan struct{})
	go interrupt(ctx, group, ended)
	err := cmd.Wait()
	close(ended)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// interrupt ends a process group when ctx is over: politely, and after a while by
// force.
func interrupt(ctx context.Context, group int, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = unix.Kill(-group, unix.SIGTERM) // an error says that it has ended
	select {
	case <-ended:
	case <-time.After(grace):
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}

// print writes a line of a lane.
func (r *run) print(lane, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.Out, "%5d s %-8s| %s\n", int(time.Since(r.began).Seconds()), lane, line)
}
