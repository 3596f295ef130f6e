// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// waveSize is the number of pods of a wave, half of them on either node.
const waveSize = 60

// traces is what pods leave on a cluster while they exist. All lists are
// sorted.
type traces struct {
	Addresses []string
	// By node: interfaces, network namespaces, rows of the datapath's maps.
	Links, Namespaces, Rows map[string][]string
}

func (e *env) traces(t *testing.T) traces {
	t.Helper()
	ctx := within(t, patience)
	addresses, err := e.AddressNames(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := traces{Addresses: addresses, Links: map[string][]string{}, Namespaces: map[string][]string{}, Rows: map[string][]string{}}
	for _, node := range e.Lab.Nodes() {
		all.Links[node.Name] = sortedLines(e.OnNode(t, node.Name, "ls", "/sys/class/net"))
		all.Namespaces[node.Name] = sortedLines(e.OnNode(t, node.Name, "ls", "/run/netns"))
		all.Rows[node.Name] = e.mapRows(ctx, t, node.Name)
	}
	return all
}

// mapRows dumps the datapath's maps on a node, but for the flows to shared
// services, which come and go with what pods that stay do.
func (e *env) mapRows(ctx context.Context, t *testing.T, node string) []string {
	t.Helper()
	daemon, err := e.Lab.DaemonPod(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Lab.ExecInPod(ctx, cluster.SystemNamespace, daemon.Name, "", "aliothctl", "map", "dump", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var held map[string]any
	if err := json.Unmarshal([]byte(out), &held); err != nil {
		t.Fatalf("read what node %s holds: %v", node, err)
	}
	delete(held, "Connections")
	text, err := json.MarshalIndent(held, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return sortedLines(string(text))
}

func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

func TestAWaveOfPodsLeavesNothingBehind(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	blue, red := e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, stage.Overlapping("red"))
	// One pod per tenant and node stays, so that a node's VPC tables stay too.
	var staying []*corev1.Pod
	for _, tenant := range []*scene.Tenant{blue, red} {
		staying = append(staying, tenant.Pod("stays-1", scene.OnNode(first)), tenant.Pod("stays-2", scene.OnNode(second)))
	}
	e.Run(t, staying...)
	before := e.traces(t)

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
	during := e.traces(t)
	if got, want := len(during.Addresses)-len(before.Addresses), 2*waveSize; got != want {
		t.Errorf("%d pods hold %d addresses more, want %d", waveSize, got, want)
	}
	e.expectAnswers(t, staying[0], wantPod(wave[2]))
	for _, pod := range wave {
		if err := e.Client.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	err := scene.Until(within(t, 2*patience), "every trace of the wave to be gone", func(context.Context) (bool, string, error) {
		diff := cmp.Diff(before, e.traces(t))
		return diff == "", diff, nil
	})
	if err != nil {
		t.Errorf("(-before +after):\n%v", err)
	}
}
