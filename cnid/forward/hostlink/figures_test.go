// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/waits"
)

// A round has so many links.
const figureRounds, manyLinks = 5, 200

// many returns the HostLinks of as many links.
func many(of func(number uint32, id string) multinet.HostLink) (rows []multinet.HostLink) {
	for i := range manyLinks {
		rows = append(rows, of(uint32(100+i), fmt.Sprint("n", i)))
	}
	return rows
}

// printFigures prints durations in ms.
func printFigures(t *testing.T, what, path string, took ...time.Duration) {
	t.Helper()
	line := figures.Line{What: what, Path: path}
	for _, d := range took {
		line.Values = append(line.Values, d.Seconds()*1000)
	}
	if err := line.Print(os.Stdout); err != nil {
		t.Fatal(err)
	}
}

// TestFigures_ManyVLAN_ComparedWithCommandBatch measures, for `make bench` alone, a pass that makes
// many links, and a batch of iproute2 that makes as many.
func TestFigures_ManyVLAN_ComparedWithCommandBatch(t *testing.T) {
	figures.Wanted(t)
	a, _ := withVLANs(t, vlan(99, "first"))
	a.wants(t)
	a.pass(t)
	var add, del strings.Builder
	for i := range manyLinks {
		fmt.Fprintf(&add, "link add link eth0 name v%d type vlan id %d\nlink set v%d up\n", i, 100+i, i)
		fmt.Fprintf(&del, "link del v%d\n", i)
	}
	ours := func() time.Duration {
		a.wants(t, many(vlan)...)
		began := time.Now()
		a.pass(t)
		took := time.Since(began)
		if got := len(a.links(t)); got != manyLinks || len(a.failed()) > 0 {
			t.Fatalf("the node has %d links, and %v has failed", got, a.failed())
		}
		a.wants(t)
		for len(a.links(t)) > 0 { // a pass deletes some
			a.pass(t)
		}
		return took
	}
	theirs := func() time.Duration {
		took := a.batch(t, add.String())
		if got := len(a.links(t)); got != manyLinks {
			t.Fatalf("the node has %d links", got)
		}
		a.batch(t, del.String())
		return took
	}
	for round := range figureRounds {
		steps := []string{"Alioth", "ip -batch"}
		if round%2 == 1 {
			slices.Reverse(steps)
		}
		for _, path := range steps {
			run := map[string]func() time.Duration{"Alioth": ours, "ip -batch": theirs}[path]
			printFigures(t, fmt.Sprintf("%d VLAN links", manyLinks), path, run())
		}
	}
}

// batch runs commands of iproute2 on the node and returns how long it took.
func (n *node) batch(t *testing.T, commands string) (took time.Duration) {
	t.Helper()
	n.Do(t, func() error {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(commands)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if took = time.Since(began); err != nil {
			return fmt.Errorf("run the batch: %w: %s", err, out)
		}
		return nil
	})
	return took
}

// TestFigures_ManyVXLAN_OneChangeMeasured measures, for `make bench` alone, how long after a change of
// the API's objects the node has the links.
func TestFigures_ManyVXLAN_OneChangeMeasured(t *testing.T) {
	figures.Wanted(t)
	a, _ := pair(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.loop.Run(ctx) }()
	defer func() { stop(); <-ended }()
	up := a.watchLinks(t)
	for range figureRounds {
		rows := many(vxlan)
		began := time.Now()
		a.wants(t, rows...)
		up.await(t, rows)
		printFigures(t, fmt.Sprintf("%d VXLAN links", manyLinks), "Alioth", time.Since(began))

		began = time.Now()
		one := vxlan(9, "one")
		a.wants(t, append(rows, one)...)
		up.await(t, []multinet.HostLink{one})
		printFigures(t, fmt.Sprintf("one more beside %d VXLAN links", manyLinks), "Alioth", time.Since(began))

		a.wants(t)
		up.awaitNone(t)
	}
}

// receiveBuffer is for the messages about many links at once, in bytes: a link has several,
// of 1 to 2 KiB each.
const receiveBuffer = 8 << 20

// watched are the VXLAN links of a node that are up, as the kernel tells of them.
type watched struct {
	changes chan netlink.LinkUpdate
	up      map[string]bool
}

func (n *node) watchLinks(t *testing.T) *watched {
	t.Helper()
	w := &watched{changes: make(chan netlink.LinkUpdate, 16*manyLinks), up: map[string]bool{}}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	space, err := netns.GetFromPath(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { space.Close() })
	options := netlink.LinkSubscribeOptions{
		Namespace: &space, ReceiveBufferSize: receiveBuffer, ReceiveBufferForceSize: true,
	}
	if err := netlink.LinkSubscribeWithOptions(w.changes, done, options); err != nil {
		t.Fatal(err)
	}
	return w
}

// next takes one change into account.
func (w *watched) next(t *testing.T) {
	t.Helper()
	select {
	case change, ok := <-w.changes:
		if !ok {
			t.Fatal("the kernel tells of no more changes")
		}
		name := change.Attrs().Name
		if change.Header.Type == unix.RTM_DELLINK {
			delete(w.up, name)
		} else if strings.HasPrefix(name, "vx_") && change.Flags&unix.IFF_UP != 0 {
			w.up[name] = true
		}
	case <-time.After(waits.Limit(time.Minute)):
		t.Fatalf("no change for a minute; %d links are up", len(w.up))
	}
}

// await returns once the links of networks are up.
func (w *watched) await(t *testing.T, rows []multinet.HostLink) {
	t.Helper()
	missing := func(row multinet.HostLink) bool { return !w.up["vx_"+row.NetworkID] }
	for slices.ContainsFunc(rows, missing) {
		w.next(t)
	}
}

func (w *watched) awaitNone(t *testing.T) {
	t.Helper()
	for len(w.up) > 0 {
		w.next(t)
	}
}
