// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Tool is the test tool as a program of this machine, and the servers of it that run in
// network namespaces.
type Tool struct {
	program string
	servers []*exec.Cmd
}

// NewTool returns the tool with the file of its program.
func NewTool(program string) *Tool { return &Tool{program: program} }

// Serve starts the test tool's server in a network namespace, given by its file.
func (t *Tool) Serve(ns string) error {
	server := exec.Command("nsenter", "--net="+ns, t.program, "serve", "--name", "reference")
	if err := server.Start(); err != nil {
		return fmt.Errorf("start a reference server: %w", err)
	}
	t.servers = append(t.servers, server)
	return nil
}

// In runs the test tool in a network namespace, given by its file.
func (t *Tool) In(ns string) Runner {
	return func(ctx context.Context, arguments ...string) (string, error) {
		var stderr bytes.Buffer
		command := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + ns, t.program}, arguments...)...)
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			return string(out), fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
		}
		return string(out), nil
	}
}

// Stop ends all servers.
func (t *Tool) Stop() error {
	var errs []error
	for _, server := range t.servers {
		errs = append(errs, server.Process.Kill())
		_ = server.Wait() // it was killed
	}
	return errors.Join(errs...)
}
