// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/addressonly"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// foreign is a node on which another CNI plugin attaches the pods.
type foreign struct {
	*control
	*attachment.Manager
	journal *journal.Journal
	dir     string
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{control: &control{}, dir: t.TempDir()}
	f.decide(addressonly.Kind)
	var err error
	f.journal, err = journal.Open(
		t.Context(),
		journal.Config{Path: filepath.Join(f.dir, "journal"), Shadow4: netip.MustParsePrefix("169.254.64.0/18"), Log: slog.New(slog.DiscardHandler)},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.journal.Close() })
	f.boot(t, "boot")
	return f
}

// decide gives all pods an interface of a kind.
func (f *foreign) decide(kind ifdriver.Kind) {
	f.decisions = []attachment.Decision{{
		Attachment: "eth0", Binding: journal.Binding{VPC: "infra", VNI: 9, Subnets: []string{"infra1"}, External: kind == addressonly.Kind},
		Interface: journal.Interface{Kind: kind, Addrs: []netip.Prefix{netip.MustParsePrefix("10.9.0.7/24")}, MAC: journal.MAC{2, 0, 10, 9, 0, 7}},
	}}
}

// boot opens the driver in a boot, for a new daemon.
func (f *foreign) boot(t *testing.T, id string) {
	t.Helper()
	driver, err := addressonly.New(filepath.Join(f.dir, "notes"), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Manager = attachment.New(attachment.Config{
		Journal: f.journal, Log: slog.New(slog.DiscardHandler), Metrics: attachment.NewMetrics(prometheus.NewRegistry()),
		Drivers:   ifdriver.Drivers{addressonly.Kind: driver, attachmenttest.Kind: attachmenttest.Driver{Sandboxes: func() []string { return nil }}},
		Decisions: f.control, Datapath: f.control, Releaser: f.control,
	})
}

func asked(container string) attachment.Request {
	return attachment.Request{
		Key: journal.Key{ContainerID: container, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: "p", UID: "uid"}, Network: "bridge", External: true,
	}
}

func TestExternalAttach_EachPlugin_OnlyOwnInterfacesMade(t *testing.T) {
	f := newForeign(t)
	request := asked("c1")
	request.External = false
	if _, err := f.Establish(t.Context(), request); !errors.Is(err, attachment.ErrCaller) {
		t.Errorf("Alioth's own plugin: %v", err)
	}
	f.decide(attachmenttest.Kind)
	if _, err := f.Establish(t.Context(), asked("c1")); !errors.Is(err, attachment.ErrCaller) {
		t.Errorf("another plugin: %v", err)
	}
	if records := f.journal.Records(); len(records) != 0 {
		t.Errorf("left are %+v", records)
	}
}

// TestExternalDetach_EachPlugin_OnlyOwnInterfacesRemoved: a client of the node IPAM API may name any
// container of the node.
func TestExternalDetach_EachPlugin_OnlyOwnInterfacesRemoved(t *testing.T) {
	f, pod := newForeign(t), netnstest.New(t)
	if _, err := f.Establish(t.Context(), asked("theirs")); err != nil {
		t.Fatal(err)
	}
	f.decide(attachmenttest.Kind)
	own := asked("own")
	own.External, own.NetnsPath = false, pod.Path
	if _, err := f.Establish(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := f.RemoveExternal(t.Context(), own.Key); err != nil || len(f.journal.Records()) != 2 {
		t.Errorf("another plugin removes Alioth's: %v, left are %+v", err, f.journal.Records())
	}
	if err := f.Remove(t.Context(), asked("theirs").Key); err != nil || len(f.journal.Records()) != 2 {
		t.Errorf("Alioth's plugin removes another's: %v, left are %+v", err, f.journal.Records())
	}
	if err := f.Remove(t.Context(), own.Key); err != nil || len(f.journal.Records()) != 1 {
		t.Errorf("its own: %v, left are %+v", err, f.journal.Records())
	}
	if err := f.RemoveExternal(t.Context(), asked("theirs").Key); err != nil || len(f.journal.Records()) != 0 {
		t.Errorf("its own: %v, left are %+v", err, f.journal.Records())
	}
}

func TestAddress_OtherPlugin_KeptUntilBootEnds(t *testing.T) {
	f := newForeign(t)
	first, err := f.Establish(t.Context(), asked("c1"))
	if err != nil {
		t.Fatal(err)
	}
	if rec := first[0].Record; rec.Shadow4.IsValid() || f.programmed != 0 {
		t.Errorf("the datapath has something of it: %+v, programmed %d times", rec, f.programmed)
	}
	again, err := f.Establish(t.Context(), asked("c1"))
	prefixes := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	addrs := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(first, again, prefixes, addrs); err != nil || diff != "" {
		t.Errorf("asked again: %v (-first +again):\n%s", err, diff)
	}
	if _, err := f.Establish(t.Context(), asked("c2")); err != nil {
		t.Errorf("the pod's next container: %v", err)
	}
	if err := f.Reconcile(t.Context()); err != nil || len(f.journal.Records()) != 2 {
		t.Errorf("%v, left are %+v, want both", err, f.journal.Records())
	}
	f.boot(t, "another boot")
	if err := f.Reconcile(t.Context()); err != nil || len(f.journal.Records()) != 0 || len(f.released) != 2 {
		t.Errorf("after a boot: %v, left are %+v, released %v", err, f.journal.Records(), f.released)
	}
	if _, err := f.Establish(t.Context(), asked("c3")); err != nil {
		t.Errorf("the container of this boot: %v", err)
	}
}
