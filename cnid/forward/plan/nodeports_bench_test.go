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

// nodePortServices is the number of Services in a large cluster. All of them have a node port.
const nodePortServices = 5000

func nodePortName(n int) string { return fmt.Sprintf("web-%d", n) }

func nodePort(n int) []store.ServicePort {
	return []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: uint16(20000 + n)}}
}

// nodePortEndpoints are four pods of another node, and one here.
func nodePortEndpoints(n int) (list []store.Endpoint) {
	for i := range 4 {
		list = append(list, on("node2", fmt.Sprintf("10.10.2.%d", (n+i)%200)))
	}
	return append(list, on("node1", "10.10.1.10"))
}

func newNodePorts(b *testing.B) *world {
	b.Helper()
	w := scaledTenants(b)
	for host := range 200 {
		addr := fmt.Sprintf("10.10.2.%d", host)
		w.put(b, address("blue", addr, "node2", store.HolderPod, addr))
	}
	for n := range nodePortServices {
		name := nodePortName(n)
		w.put(b,
			service("blue", name, []string{fmt.Sprintf("10.96.%d.%d", 2+n/200, n%200)}, nodePort(n)...),
			slice("blue", name, name, nodePort(n), nodePortEndpoints(n)...),
		)
	}
	return w
}

// BenchmarkAChangedNodePort changes one slice and plans. Run it with -benchtime 300x.
func BenchmarkAChangedNodePort(b *testing.B) {
	w, p := newNodePorts(b), &Planner{}
	w.plan(p, serveNodePorts)
	measure(b, func(n int) {
		at := (7 * n) % nodePortServices
		name := nodePortName(at)
		w.put(b, slice("blue", name, name, nodePort(at), nodePortEndpoints(n)[n%2:]...))
	}, func() { w.plan(p, serveNodePorts) })
}

// BenchmarkAWholePlanOfNodePorts plans from nothing. Run it with -benchtime 20x.
func BenchmarkAWholePlanOfNodePorts(b *testing.B) {
	w := newNodePorts(b)
	measure(b, func(int) {}, func() { w.plan(&Planner{}, serveNodePorts) })
}

// measure reports what plan takes after each change.
func measure(b *testing.B, change func(n int), plan func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took, processor []time.Duration
	for n := 0; b.Loop(); n++ {
		change(n)
		began, ran := time.Now(), processorTime(b)
		plan()
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

// processorTime returns the CPU time of this thread, which does not depend on the load of the
// machine.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var had unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &had); err != nil {
		b.Fatal(err)
	}
	return time.Duration(had.Nano())
}
