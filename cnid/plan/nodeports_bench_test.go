// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/store"
)

// BenchmarkAChangedNodePort changes one slice of 5,000 Services, all of which have a
// node port, and plans. Run it with -benchtime 300x.
func BenchmarkAChangedNodePort(b *testing.B) {
	w := scaledTenants(b)
	for host := range 200 {
		addr := fmt.Sprintf("10.10.2.%d", host)
		w.put(b, address("blue", addr, "node2", store.HolderPod, addr))
	}
	endpoints := func(n int) (list []store.Endpoint) {
		for i := range 4 {
			list = append(list, on("node2", fmt.Sprintf("10.10.2.%d", (n+i)%200)))
		}
		return append(list, on("node1", "10.10.1.10"))
	}
	port := func(n int) []store.ServicePort {
		return []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: uint16(20000 + n)}}
	}
	for n := range 5000 {
		name := fmt.Sprintf("web-%d", n)
		w.put(b, service("blue", name, []string{fmt.Sprintf("10.96.%d.%d", 2+n/200, n%200)}, port(n)...), slice("blue", name, name, port(n), endpoints(n)...))
	}
	p := &Planner{}
	w.plan(p, serveNodePorts)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took, processor []time.Duration
	for n := 0; b.Loop(); n++ {
		at := (7 * n) % 5000
		name := fmt.Sprintf("web-%d", at)
		w.put(b, slice("blue", name, name, port(at), endpoints(n)[n%2:]...))
		began, ran := time.Now(), processorTime(b)
		w.plan(p, serveNodePorts)
		took, processor = append(took, time.Since(began)), append(processor, processorTime(b)-ran)
	}
	report(b, "", took)
	report(b, "cpu-", processor)
}

func report(b *testing.B, what string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, what+"p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, what+"p99-ms")
}

// processorTime is what this thread has had of a processor: it does not depend on what
// else runs.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
