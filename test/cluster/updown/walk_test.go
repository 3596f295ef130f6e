// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/census"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/soak"
)

// selectedValues are the values of the page that let nodes change one by one.
const selectedValues = `
daemon:
  nodeSelector: {kubernetes.io/os: linux, example.com/network: alioth}
`

// TestNodes_MoveOneByOne_PodsStayConnected follows docs/install/existing-network.md: each node is
// drained and gets Alioth while pods of both networks run beside kube-proxy, and one goes the way
// back.
func TestNodes_MoveOneByOne_PodsStayConnected(t *testing.T) {
	soak.Only(t)
	for _, network := range otherNetworks {
		t.Run(string(network), func(t *testing.T) { testWalk(t, network) })
	}
}

func testWalk(t *testing.T, network cluster.CNI) {
	f := newFixture(t)
	f.options.CNI = network
	b := f.beside(t, selectedValues)
	w := &town{beside: b, guide: newGuide(t, b, f), alioth: map[string]bool{}}
	for _, node := range w.Nodes() {
		if err := w.StartKubeProxy(w.within(t), node.Name, "nftables", "10.244.0.0/16,fd44::/48"); err != nil {
			t.Fatal(err)
		}
	}
	w.start(t)
	w.expectGuide(t)
	first, last := w.Nodes()[0].Name, w.Nodes()[1].Name
	before := w.traces(t, last)

	w.moveAll(t, first, last)
	w.moveBack(t, first, last)
	if network == cluster.CNIFlannel {
		w.restartFlannel(t)
	}
	w.expectTracesGone(t, last, before)
	f.traces.learn(t)
	f.down(t)
}

// moveAll gives Alioth to the nodes, one after the other. Pods of the other network that nobody
// restarts go on to talk.
func (w *town) moveAll(t *testing.T, first, last string) {
	t.Helper()
	all := w.await(t)
	talk := w.begin(t.Context(), t, find(t, all, "stays", first), find(t, all, "stays", last))
	w.follow(w.within(t), t, "dns", "")
	w.follow(w.within(t), t, "install", "")
	w.restart(t, "moves")
	w.expectGuide(t)
	w.expectNoAddressLeft(t)
	for _, node := range []string{last, first} {
		w.follow(w.within(t), t, "node", node)
		w.alioth[node] = true
		w.restart(t, "moves")
		w.expectGuide(t)
		w.expectNoAddressLeft(t)
	}
	talk.expectUnbroken(w.within(t), t)
	w.restart(t, "stays")
	w.follow(w.within(t), t, "dns-after", "")
	w.expectGuide(t)
}

// moveBack takes Alioth from the last node. Pods of Alioth on the first one go on to talk.
func (w *town) moveBack(t *testing.T, first, last string) {
	t.Helper()
	w.follow(w.within(t), t, "dns", "")
	all := w.await(t)
	talk := w.begin(t.Context(), t, find(t, all, "stays", first), find(t, all, "moves", first))
	w.follow(w.within(t), t, "back", last)
	w.followOn(w.within(t), t, "back-on-the-node", last)
	w.follow(w.within(t), t, "back-in-the-end", last)
	delete(w.alioth, last)
	w.expectNoAddressLeft(t)
	w.expectGuide(t)
	talk.expectUnbroken(w.within(t), t)
}

// expectNoAddressLeft waits until each address is one of a living pod, or of a node: also on nodes
// that have no daemon.
func (w *town) expectNoAddressLeft(t *testing.T) {
	t.Helper()
	err := objects.WaitFor(w.within(t), "addresses of ended pods are released", func(ctx context.Context) error {
		const holders = `{range .items[?(@.spec.holder.kind=="Pod")]}{.spec.holder.uid} {.metadata.name}{"\n"}{end}`
		held, err := w.Kubectl(ctx, "get", "addresses", "-o", "jsonpath="+holders)
		if err != nil {
			return err
		}
		living, err := w.Kubectl(ctx, "get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.uid}")
		if err != nil {
			return err
		}
		for line := range strings.Lines(held) {
			uid, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !strings.Contains(living, uid) {
				return fmt.Errorf("%s is held by a pod that is gone", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// traces returns the census of a node, and a line for each condition and annotation of its Node
// object.
func (w *town) traces(t *testing.T, node string) []string {
	t.Helper()
	lines, err := census.Node(w.within(t), w.NodeExec, node)
	if err != nil {
		t.Fatal(err)
	}
	object, err := w.Client().CoreV1().Nodes().Get(w.within(t), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The rules of kube-proxy and of the other network follow the pods.
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "nft ") && !strings.Contains(line, "alioth")
	})
	for _, condition := range object.Status.Conditions {
		lines = append(lines, fmt.Sprintf("condition %s=%s", condition.Type, condition.Status))
	}
	for key := range object.Annotations {
		lines = append(lines, "annotation "+key)
	}
	slices.Sort(lines)
	return lines
}

func (w *town) expectTracesGone(t *testing.T, node string, before []string) {
	t.Helper()
	err := objects.WaitFor(w.within(t), node+" is as it was", func(context.Context) error {
		if diff := cmp.Diff(before, w.traces(t, node)); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
