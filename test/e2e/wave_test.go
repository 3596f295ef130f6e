// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// waveSize is the number of pods of a wave, half of them on either node.
const waveSize = 60

// traces is what the pods of some tenants leave on a cluster while they exist. Pods of
// other tests are not in it. All lists are sorted.
type traces struct {
	Addresses []string
	// By node: host ends of pairs, network namespaces, rows of the datapath's maps.
	Links, Namespaces, Rows map[string][]string
	// orphans are rows of the nodes' maps for pods that are not there.
	orphans []string
}

func (e *env) traces(t *testing.T, tenants ...*scene.Tenant) traces {
	t.Helper()
	ctx := within(t, patience)
	all := traces{Links: map[string][]string{}, Namespaces: map[string][]string{}, Rows: map[string][]string{}}
	vnis := vnis{}
	for _, tenant := range tenants {
		var list v1alpha1.AddressList
		if err := e.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": tenant.VPC.Name}); err != nil {
			t.Fatal(err)
		}
		for _, address := range list.Items {
			all.Addresses = append(all.Addresses, address.Name)
		}
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(tenant.VPC), tenant.VPC); err != nil {
			t.Fatal(err)
		}
		vnis[uint32(tenant.VPC.Status.VNI)] = true
	}
	slices.Sort(all.Addresses)
	for _, node := range e.Lab.Nodes() {
		dump, err := e.Dump(ctx, node.Name)
		if err != nil || len(dump.Unreadable) > 0 {
			t.Fatalf("dump of %s: %v, %v", node.Name, err, dump.Unreadable)
		}
		all.Links[node.Name], all.Namespaces[node.Name] = vnis.places(dump.Attachments)
		all.Rows[node.Name] = vnis.rows(t, dump)
		all.orphans = append(all.orphans, orphans(dump)...)
	}
	return all
}

// vnis are those of some VPCs.
type vnis map[uint32]bool

// places returns the host ends and the network namespaces of the VPCs' pods.
func (v vnis) places(records []nodestatus.Attachment) (links, namespaces []string) {
	for _, record := range records {
		if v[record.VNI] {
			links, namespaces = append(links, record.HostIfName), append(namespaces, path.Base(record.NetnsPath))
		}
	}
	slices.Sort(links)
	slices.Sort(namespaces)
	return links, namespaces
}

// rows returns the rows of a node's maps that belong to the VPCs.
func (v vnis) rows(t *testing.T, dump nodestatus.Dump) (rows []string) {
	t.Helper()
	text, err := json.Marshal(dump.Datapath)
	if err != nil {
		t.Fatal(err)
	}
	var tables map[string][]json.RawMessage
	if err := json.Unmarshal(text, &tables); err != nil {
		t.Fatalf("read the maps of %s: %v", dump.Node, err)
	}
	for table, list := range tables {
		for _, raw := range list {
			var r row
			if raw[0] == '{' {
				if err := json.Unmarshal(raw, &r); err != nil {
					t.Fatalf("read a row of %s: %v", table, err)
				}
			}
			if v.have(r) {
				rows = append(rows, table+" "+string(raw))
			}
		}
	}
	slices.Sort(rows)
	return rows
}

// row is what rows of different tables have of a VPC.
type row struct {
	VNI         uint32
	Memberships []state.Membership
}

func (v vnis) have(r row) bool {
	return v[r.VNI] || slices.ContainsFunc(r.Memberships, func(m state.Membership) bool { return v[m.VNI] })
}

// orphans returns the rows for probes and hooks that belong to no pod of the node.
func orphans(dump nodestatus.Dump) (list []string) {
	shadows := map[netip.Addr]bool{}
	for _, record := range slices.Concat(dump.Attachments, dump.Releasing, dump.Departed) {
		shadows[record.Shadow4], shadows[record.Shadow6] = true, true
	}
	for _, probe := range dump.Datapath.Probes {
		if !shadows[probe.Shadow] {
			list = append(list, fmt.Sprintf("%s: probe %+v", dump.Node, probe))
		}
	}
	for _, hook := range dump.Datapath.Hooks {
		if !shadows[hook.Shadow] {
			list = append(list, fmt.Sprintf("%s: hook %+v", dump.Node, hook))
		}
	}
	return list
}

// left returns what of a wave is still on the nodes: devices and network namespaces that
// were there during the wave and not before.
func (e *env) left(t *testing.T, before, during traces) (left []string) {
	t.Helper()
	for _, node := range e.Lab.Nodes() {
		// The first column is the name. A node's /sys has the devices of the machine.
		devices := strings.NewReplacer(":", " ").Replace(e.OnNode(t, node.Name, "cat", "/proc/self/net/dev"))
		names := strings.Fields(devices + e.OnNode(t, node.Name, "ls", "/run/netns"))
		was := slices.Concat(before.Links[node.Name], before.Namespaces[node.Name])
		for _, name := range slices.Concat(during.Links[node.Name], during.Namespaces[node.Name]) {
			if slices.Contains(names, name) && !slices.Contains(was, name) {
				left = append(left, node.Name+" "+name)
			}
		}
	}
	return left
}

func TestAWaveOfPodsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	blue, red := e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, stage.Overlapping("red"))
	// One pod per tenant and node stays, so that a node's VPC tables stay too.
	var staying []*corev1.Pod
	for _, tenant := range []*scene.Tenant{blue, red} {
		staying = append(staying, tenant.Pod("stays-1", scene.OnNode(first)), tenant.Pod("stays-2", scene.OnNode(second)))
	}
	e.Run(t, staying...)
	before := e.traces(t, blue, red)

	var wave []*corev1.Pod
	for i := range waveSize {
		tenant, node := []*scene.Tenant{blue, red}[i%2], []string{first, second}[i/2%2]
		wave = append(wave, tenant.Pod(fmt.Sprintf("wave-%02d", i), scene.OnNode(node), scene.WithReadiness(httpProbe("/healthz"))))
	}
	began := time.Now()
	if err := e.Start(within(t, 3*patience), wave...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods were Ready after %s", waveSize, time.Since(began).Round(100*time.Millisecond))
	during := e.traces(t, blue, red)
	if got, want := len(during.Addresses)-len(before.Addresses), 2*waveSize; got != want {
		t.Errorf("%d pods hold %d addresses more, want %d", waveSize, got, want)
	}
	if there := e.left(t, before, during); len(there) != 2*waveSize {
		t.Errorf("%d pods have %d devices and namespaces on the nodes, want %d: %v", waveSize, len(there), 2*waveSize, there)
	}
	for node, rows := range during.Rows {
		if more := len(rows) - len(before.Rows[node]); more < waveSize/2 {
			t.Errorf("the maps of %s have %d rows more, want one for each of %d pods at least", node, more, waveSize/2)
		}
	}
	e.expectAnswers(t, staying[0], wantPod(wave[2]))
	for _, pod := range wave {
		if err := e.Client.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	err := scene.Until(within(t, 2*patience), "every trace of the wave to be gone", func(context.Context) (bool, string, error) {
		now, left := e.traces(t, blue, red), e.left(t, before, during)
		diff := cmp.Diff(before, now, cmpopts.IgnoreUnexported(traces{}))
		left = append(left, now.orphans...)
		return diff == "" && len(left) == 0, fmt.Sprint(diff, left), nil
	})
	if err != nil {
		t.Errorf("(-before +after):\n%v", err)
	}
}
