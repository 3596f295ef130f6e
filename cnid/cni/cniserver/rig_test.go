// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/cni/cniserver"
	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// The steps at which a rig can be made to fail or to crash, named for the call
// that is about to begin or has just ended.
const (
	beforeAwait     = "before Await"
	beforeConfirm   = "before Confirm"
	beforeAttach    = "before Attach"
	afterAttach     = "after Attach"
	beforeProgram   = "before Program"
	afterProgram    = "after Program"
	beforeUnprogram = "before Unprogram"
	beforeDetach    = "before Detach"
	afterDetach     = "after Detach"
	beforeRelease   = "before Release"
	beforeCheck     = "before Check"
)

// rig is a node: a namespace, real devices, a real journal on disk, and a
// control plane and datapath that only remember. It implements Decisions,
// Datapath and Releaser.
type rig struct {
	node     *netnstest.Namespace
	journal  *journal.Journal
	manager  *attachment.Manager
	server   *cniserver.Server
	registry *prometheus.Registry
	path     string // of the journal
	// limits are the times that the server is given, in effect from reopen on.
	limits attachment.Config

	mu         sync.Mutex
	decisions  map[string][]attachment.Decision // by pod UID
	programmed map[journal.Key]bool
	programs   int
	released   []journal.Key
	ready      error
	// at is called at every step, without mu.
	at func(step string) error
	// awaiting gets a value for each Await that begins, if there is room.
	awaiting chan struct{}
	// pods are all that there ever were.
	pods []pod
}

// sandboxes returns the paths of the pods' network namespaces.
func (r *rig) sandboxes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var paths []string
	for _, p := range r.pods {
		paths = append(paths, p.netns.Path)
	}
	return paths
}

// hooked is the real driver with steps around it.
type hooked struct {
	ifdriver.Driver
	rig *rig
}

func (h hooked) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	if err := h.rig.at(beforeAttach); err != nil {
		return ifdriver.Link{}, err
	}
	link, err := h.Driver.Attach(ctx, spec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	return link, h.rig.at(afterAttach)
}

func (h hooked) Detach(ctx context.Context, containerID, ifName string) error {
	if err := h.rig.at(beforeDetach); err != nil {
		return err
	}
	if err := h.Driver.Detach(ctx, containerID, ifName); err != nil {
		return err
	}
	return h.rig.at(afterDetach)
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{
		node: netnstest.New(t), path: filepath.Join(t.TempDir(), "journal.log"),
		decisions: map[string][]attachment.Decision{}, programmed: map[journal.Key]bool{},
		awaiting: make(chan struct{}, 1), registry: prometheus.NewRegistry(),
	}
	r.at = func(string) error { return nil }
	r.start(t, r.registry)
	t.Cleanup(func() { _ = r.journal.Close() })
	return r
}

// start does the first steps of a daemon.
func (r *rig) start(t testing.TB, registry prometheus.Registerer) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var err error
	r.journal, err = journal.Open(t.Context(), journal.Config{
		Path: r.path, Log: log,
		Shadow4: netip.MustParsePrefix("169.254.64.0/18"), Shadow6: netip.MustParsePrefix("fd41:6c69:6f74:6801::/64"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var driver *pair.Driver
	r.node.Do(t, func() error {
		driver, err = pair.New(veth.Devices, net.HardwareAddr{2, 0xa1, 7, 0, 0, 1})
		return err
	})
	t.Cleanup(driver.Close)
	r.manager = attachment.New(attachment.Config{
		Journal: r.journal, Log: log, Metrics: attachment.NewMetrics(registry),
		Drivers: ifdriver.Drivers{
			veth.Kind:           hooked{driver, r},
			attachmenttest.Kind: hooked{attachmenttest.Driver{Sandboxes: r.sandboxes}, r},
		},
		Decisions: r, Datapath: r, Releaser: r,
		Wait: r.limits.Wait, LockWait: r.limits.LockWait, Lasting: r.limits.Lasting,
	})
	r.server = cniserver.New(cniserver.Config{Manager: r.manager, Metrics: cniserver.NewMetrics(registry), Log: log})
}

// restart stands for a daemon that was killed and comes back: only the disk and the kernel keep
// state. It returns after the first Reconcile.
func (r *rig) restart(t testing.TB) {
	t.Helper()
	r.reopen(t)
	// The datapath starts from the journal, as its contract requires.
	for _, rec := range r.journal.Records() {
		r.programmed[rec.Key] = rec.Phase == journal.PhaseDone
	}
	if err := r.manager.Reconcile(t.Context()); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// reopen restarts the daemon without Reconcile.
func (r *rig) reopen(t testing.TB) {
	t.Helper()
	if err := r.journal.Close(); err != nil {
		t.Fatal(err)
	}
	r.programmed = map[journal.Key]bool{}
	r.at = func(string) error { return nil }
	r.start(t, prometheus.NewRegistry())
}

func (r *rig) decide(uid string, d ...attachment.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions[uid] = d
}

func (r *rig) Await(ctx context.Context, pod journal.Pod) ([]attachment.Decision, error) {
	if err := r.at(beforeAwait); err != nil {
		return nil, err
	}
	r.mu.Lock()
	d, ok := r.decisions[pod.UID]
	r.mu.Unlock()
	if ok {
		return d, nil
	}
	select {
	case r.awaiting <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, &attachment.NotReady{Reason: "subnet net1 is full"}
}

// Confirm reports the pod as gone if the step fails.
func (r *rig) Confirm([]journal.Record) error {
	if r.at(beforeConfirm) != nil {
		return attachment.ErrPodGone
	}
	return nil
}

func (r *rig) Program(_ context.Context, rec journal.Record) error {
	if err := r.at(beforeProgram); err != nil {
		return err
	}
	if now, err := r.journal.Get(rec.Key); err != nil || now.Phase != journal.PhaseDone || now.Device.HostIfindex == 0 {
		return fmt.Errorf("asked to program %+v, %w", now, err)
	}
	r.mu.Lock()
	r.programmed[rec.Key] = true
	r.programs++
	r.mu.Unlock()
	return r.at(afterProgram)
}

func (r *rig) Unprogram(_ context.Context, rec journal.Record) error {
	if err := r.at(beforeUnprogram); err != nil {
		return err
	}
	if now, err := r.journal.Get(rec.Key); err != nil || now.Phase != journal.PhaseLeaving {
		return fmt.Errorf("asked to unprogram %+v, %w", now, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.programmed, rec.Key)
	return nil
}

// ProgramSockets implements attachment.Datapath for drivers without a datapath.
func (r *rig) ProgramSockets(context.Context, journal.Record) error { return nil }

// UnprogramSockets implements attachment.Datapath.
func (r *rig) UnprogramSockets() {}

// Check stands for both the datapath's and the API's.
func (r *rig) Check(rec journal.Record) error {
	if err := r.at(beforeCheck); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.InVPC() && !r.programmed[rec.Key] {
		return fmt.Errorf("%s is not programmed", rec.Key)
	}
	return nil
}

func (r *rig) Ready() error { return r.ready }

func (r *rig) Release(rec journal.Record) {
	if err := r.at(beforeRelease); err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = append(r.released, rec.Key)
}

// compareByValue lets cmp look at addresses.
var compareByValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// expectEmpty fails the test if the node holds anything.
func (r *rig) expectEmpty(t testing.TB) {
	t.Helper()
	if got := r.node.Links(t); len(got) != 0 {
		t.Errorf("the node still has %v", got)
	}
	if got := r.journal.Records(); len(got) != 0 {
		t.Errorf("the journal still has %+v", got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, is := range r.programmed {
		if is {
			t.Errorf("%s is still programmed", key)
		}
	}
}

// expectAttached fails the test unless exactly this pod is attached.
func (r *rig) expectAttached(t testing.TB, p pod) {
	t.Helper()
	if got := r.node.Links(t); len(got) != 1 {
		t.Errorf("the node has %v, want one device", got)
	}
	if got := p.netns.Links(t); !slices.Equal(got, []string{"eth0"}) {
		t.Errorf("the pod has %v, want eth0", got)
	}
	rec, err := r.journal.Get(p.key())
	if err != nil || rec.Phase != journal.PhaseDone {
		t.Errorf("the journal has phase %q, %v", rec.Phase, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.programmed[p.key()] {
		t.Error("the pod is not programmed")
	}
}

// pod is a sandbox with a decision about its pod.
type pod struct {
	netns       *netnstest.Namespace
	containerID string
	uid         string
	decision    attachment.Decision
}

// newPod makes the i-th pod, i from 1 to 250, and has the rig decide about it.
func (r *rig) newPod(t testing.TB, i int) pod {
	t.Helper()
	p := pod{netns: netnstest.New(t), containerID: fmt.Sprintf("sandbox%d", i), uid: fmt.Sprintf("uid-%d", i)}
	p.decision = attachment.Decision{
		Attachment: "eth0", Binding: journal.Binding{VPC: "vpc-1", VNI: 7},
		Interface: journal.Interface{
			Kind: veth.Kind,
			Addrs: []netip.Prefix{
				netip.MustParsePrefix(fmt.Sprintf("10.10.1.%d/24", i+1)),
				netip.MustParsePrefix(fmt.Sprintf("fd10:10:0:1::%x/64", i+1)),
			},
			Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1"), netip.MustParseAddr("fd10:10:0:1::1")},
			MAC:      journal.MAC{2, 0, 10, 10, 1, byte(i + 1)}, Config: netif.Config{MTU: 1450}, AltName: "blue",
		},
	}
	r.decide(p.uid, p.decision)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, p)
	return p
}

// end closes the pod's namespace and returns when the kernel has removed the
// pod's device from the node.
func (r *rig) end(t testing.TB, p pod) {
	t.Helper()
	rec, err := r.journal.Get(p.key())
	if err != nil {
		t.Fatal(err)
	}
	p.netns.Close(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(soon)
	for slices.Contains(r.node.Links(t), rec.HostIfName) {
		select {
		case <-deadline:
			t.Fatalf("%s outlives its pod", rec.HostIfName)
		case <-tick.C:
		}
	}
}

func (p pod) key() journal.Key { return journal.Key{ContainerID: p.containerID, IfName: "eth0"} }

func (p pod) args() string {
	return "IgnoreUnknown=1;K8S_POD_NAMESPACE=customer-a;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=" + p.containerID + ";K8S_POD_UID=" + p.uid
}

func (p pod) request(command string) cniapi.Request {
	return cniapi.Request{
		Command: command, ContainerID: p.containerID, Netns: p.netns.Path, IfName: "eth0", Args: p.args(),
		Config: []byte(`{"cniVersion": "1.1.0", "name": "alioth", "type": "alioth"}`),
	}
}

func (r *rig) add(t testing.TB, p pod) string {
	t.Helper()
	resp := r.server.Do(t.Context(), p.request("ADD"))
	if resp.Error != nil {
		t.Fatalf("ADD: %v", resp.Error)
	}
	return string(resp.Result)
}

func (r *rig) del(t testing.TB, p pod) {
	t.Helper()
	if resp := r.server.Do(t.Context(), p.request("DEL")); resp.Error != nil {
		t.Fatalf("DEL: %v", resp.Error)
	}
}

// soon is a bound on what happens at once when it works.
var soon = waits.Limit(20 * time.Second)
