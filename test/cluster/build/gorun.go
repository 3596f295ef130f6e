// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// progressEvery is the interval between two reports of a running build.
const progressEvery = 15 * time.Second

// Go runs `go build` as Job.Build does, for a build that no estimate counts.
func Go(ctx context.Context, dir, title string, progress func(line string), args ...string) error {
	return Job{Dir: dir, Title: title, Progress: progress}.Build(ctx, args...)
}

// Job is a run of the go command.
type Job struct {
	// Dir is the working folder.
	Dir string
	// Title names the job for people.
	Title string
	// Progress gets a line every few seconds; nil discards them.
	Progress func(line string)
	// Share is the name of the job for Estimate, which may be nil.
	Share    string
	Estimate *Estimate
}

// Build runs `go build -v` with further arguments, for static binaries of this machine's
// architecture. The go command's own output becomes a count of compiled packages, and is
// part of the error when it fails.
func (j Job) Build(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v", "-buildvcs=false"}, args...)...)
	cmd.Dir = j.Dir
	// Static binaries run in an empty image and in any mount namespace.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if os.Getenv("GOGC") == "" {
		// The compiler is a short process: fewer collections cost memory for a moment, and
		// save a sixth of its time.
		cmd.Env = append(cmd.Env, "GOGC=400")
	}
	var out outputLines
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the go command: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("run go build: %w\n%s", err, out.tail())
			}
			j.Estimate.Built(j.Share)
			return nil
		case <-ticker.C:
			j.tell(time.Since(began), int(out.count.Load()))
		}
	}
}

// tell reports a running job.
func (j Job) tell(elapsed time.Duration, packages int) {
	if j.Progress == nil {
		return
	}
	line := fmt.Sprintf("building %s: %.0f s, %d packages so far", j.Title, elapsed.Seconds(), packages)
	if j.Estimate != nil {
		j.Estimate.compiled(j.Share, packages)
		line += "; " + j.Estimate.String()
	}
	j.Progress(line)
}

// outputLines counts the lines written to it and keeps the text for errors.
type outputLines struct {
	count atomic.Int64
	text  bytes.Buffer
}

func (o *outputLines) Write(p []byte) (int, error) {
	o.count.Add(int64(bytes.Count(p, []byte("\n"))))
	return o.text.Write(p)
}

// tail returns the last lines, which is where the compiler puts its errors.
func (o *outputLines) tail() string {
	const keep = 30
	var lines []string
	scanner := bufio.NewScanner(&o.text)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return strings.Join(lines[max(0, len(lines)-keep):], "\n")
}
