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
const progressEvery = 10 * time.Second

// Go runs `go build -v` with further arguments in dir, for static binaries of
// this machine's architecture. While it lasts, progress, which may be nil, gets
// a line with title every few seconds. The go command's own output becomes a
// count of compiled packages, and is part of the error when it fails.
func Go(ctx context.Context, dir, title string, progress func(line string), args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v", "-buildvcs=false"}, args...)...)
	cmd.Dir = dir
	// Static binaries run in an empty image and in any mount namespace.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
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
			return nil
		case <-ticker.C:
			if progress != nil {
				progress(fmt.Sprintf("building %s: %.0f s, %d packages so far", title, time.Since(began).Seconds(), out.count.Load()))
			}
		}
	}
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
