// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/soak"
)

// largeWave is the number of pods of a wave in `make soak`, wave in `make test`; half of them are on
// either node.
const largeWave, wave = 60, 20

// traces are the traces of some tenants' pods on a cluster while they exist. Pods of other tests
// are not in it. All lists are sorted.
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

// vnis are the VNIs of some VPCs.
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

// vniOfRow finds the VNIs in the text of a row, see state.State.Rows.
var vniOfRow = regexp.MustCompile(`\bVNI[: ](\d+)`)

// rows returns the rows of a node's maps that belong to the VPCs.
func (v vnis) rows(t *testing.T, dump nodestatus.Dump) (rows []string) {
	t.Helper()
	for key, content := range dump.Rows {
		text := key + ": " + content
		for _, found := range vniOfRow.FindAllStringSubmatch(text, -1) {
			vni, err := strconv.ParseUint(found[1], 10, 32)
			if err != nil {
				t.Fatalf("read a row of %s: %v", dump.Node, err)
			}
			if v[uint32(vni)] {
				rows = append(rows, text)
				break
			}
		}
	}
	slices.Sort(rows)
	return rows
}

// orphans returns the rows for probes and hooks that belong to no pod of the node.
func orphans(dump nodestatus.Dump) (list []string) {
	shadows := map[string]bool{}
	for _, record := range slices.Concat(dump.Attachments, dump.Releasing, dump.Removed) {
		shadows[record.Shadow4.String()], shadows[record.Shadow6.String()] = true, true
	}
	for key, content := range dump.Rows {
		leads := strings.HasPrefix(key, "probe target ") || strings.HasPrefix(key, "hook target ")
		if leads && !shadows[content] {
			list = append(list, fmt.Sprintf("%s: %s leads to %s", dump.Node, key, content))
		}
	}
	return list
}

// left returns the remainders of a wave on the nodes: devices and network namespaces that were
// there during the wave and not before.
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

func TestPodWave_Ended_NothingLeft(t *testing.T) {
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

	size := soak.Or(t, largeWave, wave)
	var pods []*corev1.Pod
	for i := range size {
		tenant, node := []*scene.Tenant{blue, red}[i%2], []string{first, second}[i/2%2]
		pods = append(pods, tenant.Pod(fmt.Sprintf("wave-%02d", i), scene.OnNode(node), scene.WithReadiness(httpProbe("/healthz"))))
	}
	began := time.Now()
	if err := e.Start(within(t, 3*patience), pods...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods were Ready after %s", size, time.Since(began).Round(100*time.Millisecond))
	during := e.traces(t, blue, red)
	if got, want := len(during.Addresses)-len(before.Addresses), 2*size; got != want {
		t.Errorf("%d pods hold %d addresses more, want %d", size, got, want)
	}
	if there := e.left(t, before, during); len(there) != 2*size {
		t.Errorf("%d pods have %d devices and namespaces on the nodes, want %d: %v", size, len(there), 2*size, there)
	}
	for node, rows := range during.Rows {
		if more := len(rows) - len(before.Rows[node]); more < size/2 {
			t.Errorf("the maps of %s have %d rows more, want one for each of %d pods at least", node, more, size/2)
		}
	}
	e.expectAnswers(t, staying[0], wantPod(pods[2]))
	for _, pod := range pods {
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
