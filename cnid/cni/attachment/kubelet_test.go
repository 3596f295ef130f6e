// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// allocated are the devices of pods by their names, as a kubelet has them.
type allocated map[string][]string

func (a allocated) Of(_ context.Context, pod journal.Pod) (map[string][]string, error) {
	if a[pod.Name] == nil {
		return nil, errors.New("the kubelet is away")
	}
	return map[string][]string{"x/vf": a[pod.Name]}, nil
}

// TestDevice_BeforeUse_JournaledWithOneHolder has pods with one interface on a device
// each. A kubelet that has lost its checkpoint has given some of them the same device.
func TestDevice_BeforeUse_JournaledWithOneHolder(t *testing.T) {
	pod := netnstest.New(t)
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), journal.Config{Path: filepath.Join(t.TempDir(), "journal"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	c := &control{decisions: []attachment.Decision{{
		Attachment: "eth0", Binding: journal.Binding{Outside: "fast"},
		Interface: journal.Interface{Kind: attachmenttest.Kind, MAC: journal.MAC{2, 0, 0, 0, 7, 7}, Config: netif.Config{Pool: "x/vf"}},
	}}}
	cfg := attachment.Config{
		Journal: j, Log: log, Metrics: attachment.NewMetrics(prometheus.NewRegistry()),
		Drivers:   ifdriver.Drivers{attachmenttest.Kind: attachmenttest.Driver{Sandboxes: func() []string { return []string{pod.Path} }}},
		Decisions: c, Datapath: c, Releaser: c,
	}
	m := attachment.New(cfg)
	establish := func(name string) error {
		_, err := m.Establish(t.Context(), attachment.Request{
			Key: journal.Key{ContainerID: "sandbox-" + name, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: name, UID: name},
			Network: "alioth", NetnsPath: pod.Path,
		})
		return err
	}
	refused := func(name, says string) {
		t.Helper()
		var notReady *attachment.NotReady
		if err := establish(name); !errors.As(err, &notReady) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", name, err, says)
		}
	}
	refused("first", "start alioth-cnid with --sriov")
	cfg.Devices = allocated{"first": {"0000:03:10.1"}, "second": {"0000:03:10.1"}, "none": {}}
	m = attachment.New(cfg)
	if err := establish("first"); err != nil {
		t.Fatal(err)
	}
	if records := j.Records(); len(records) != 1 || records[0].PCI != "0000:03:10.1" || records[0].Pool != "x/vf" {
		t.Errorf("the journal has %+v", records)
	}
	refused("second", "interface eth0 of pod ns/first has 0000:03:10.1")
	refused("none", "has allocated 0 device(s) of x/vf")
	refused("unknown", "the kubelet is away")
	if len(j.Records()) != 1 {
		t.Errorf("refused pods leave %+v", j.Records())
	}
	if err := m.Remove(t.Context(), journal.Key{ContainerID: "sandbox-first", IfName: "eth0"}); err != nil {
		t.Fatal(err)
	}
	if err := establish("second"); err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
}
