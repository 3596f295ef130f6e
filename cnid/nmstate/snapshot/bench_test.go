// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
)

// large is a host with 500 interfaces, and 10,000 routes through one.
func large(b *testing.B) *host {
	b.Helper()
	h := &host{randomhost.New(b), b}
	h.Run(
		"ip link add eth1 type veth peer name eth1.ep\nip link set eth1 up\nip addr add 192.0.2.10/24 dev eth1\nip link add eth2 type bridge\nip link set eth2 up\nip addr add 198.51.100.1/24 dev eth2",
	)
	var lines strings.Builder
	for n := range 497 {
		fmt.Fprintf(&lines, "link add p%d type bridge\n", n)
	}
	for n := range 10_000 {
		fmt.Fprintf(&lines, "route add 10.%d.%d.0/24 via 192.0.2.1 dev eth1 onlink proto bird\n", n/256, n%256)
	}
	h.Space.Do(b, func() error {
		command := exec.CommandContext(b.Context(), "ip", "-batch", "-")
		command.Stdin = strings.NewReader(lines.String())
		return command.Run()
	})
	return h
}

// BenchmarkLargeHost has the parts of an undo, for an area without the 10,000 routes and for
// one with them.
func BenchmarkLargeHost(b *testing.B) {
	h := large(b)
	for _, name := range []string{"eth2", "eth1"} {
		a := snapshot.Area{Names: []string{name}}
		i, now := h.take(a), h.all(a)
		text, err := json.Marshal(i)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("Take/"+name, func(b *testing.B) {
			for b.Loop() {
				h.all(a)
			}
			b.ReportMetric(float64(len(text)), "bytes-on-disk")
		})
		b.Run("Within/"+name, func(b *testing.B) {
			for b.Loop() {
				now.Within(a)
			}
		})
		b.Run("Back/"+name, func(b *testing.B) {
			for b.Loop() {
				snapshot.Back(i, now, a, time.Second)
			}
		})
	}
}
