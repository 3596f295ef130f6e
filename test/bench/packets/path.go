// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packets measures rates and round trips of packets over several paths in turn, with
// the test tool at both ends of each.
package packets

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// Runner runs the test tool at one end of a path.
type Runner func(ctx context.Context, arguments ...string) (string, error)

// Path leads from where Run runs to a server's address.
type Path struct {
	// Name of the path in tables.
	Name string
	// Run runs the test tool at the path's start.
	Run Runner
	// Address is the server's.
	Address netip.Addr
}

// Ask runs the test tool at the path's start and reads the JSON it prints.
func (p Path) Ask(ctx context.Context, into any, arguments ...string) error {
	out, err := p.Run(ctx, arguments...)
	if err != nil {
		return fmt.Errorf("over %s: %w", p.Name, err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("over %s, read %q: %w", p.Name, out, err)
	}
	return nil
}

// To joins the path's address and a port of the test tool's server.
func (p Path) To(port uint16) string { return netip.AddrPortFrom(p.Address, port).String() }

// WarmUp waits until the server of every path answers.
func WarmUp(ctx context.Context, paths []Path) error {
	for _, p := range paths {
		var result report.Probe
		err := p.Ask(ctx, &result, "dial", "http", p.To(report.PortHTTP)+"/hostname", "--timeout", "20s")
		if err != nil {
			return fmt.Errorf("wait for the server: %w (%s)", err, result.Error)
		}
	}
	return nil
}
