// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers/addressonly"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/nodeipam"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store"
)

// control is the control plane: it decides an address for each pod. Of the embedded
// interfaces nothing else is called.
type control struct {
	attachment.Datapath
	attachment.Releaser
	// undecided, if it is set, keeps decisions back until it is closed.
	undecided chan struct{}
	// stubborn decides when the request has been ended, whatever that means.
	stubborn bool
	waits    chan struct{}
	gone     bool
	// mirrors maps the UID of a static pod to the UID of its mirror.
	mirrors  map[string]string
	mu       sync.Mutex
	released int
}

func (c *control) Await(ctx context.Context, pod journal.Pod) ([]attachment.Decision, error) {
	if c.gone {
		return nil, attachment.ErrPodGone
	}
	if c.undecided != nil {
		c.waits <- struct{}{}
		select {
		case <-c.undecided:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if c.stubborn {
		c.waits <- struct{}{}
		<-ctx.Done()
	}
	var number uint16
	if _, err := fmt.Sscanf(pod.Name, "p%d", &number); err != nil {
		return nil, err
	}
	high, last := byte(number>>8), byte(number)
	return []attachment.Decision{{
		PodUID:     c.mirrors[pod.UID],
		Attachment: "eth0", Binding: journal.Binding{VPC: "infra", VNI: 9, Subnets: []string{"infra1"}, External: true},
		Interface: journal.Interface{
			Kind: addressonly.Kind, Addrs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, high, last}), 24)},
			Gateways: []netip.Addr{netip.MustParseAddr("10.9.0.1")}, MAC: journal.MAC{2, 0, 10, 9, high, last},
		},
	}}, nil
}

func (c *control) Confirm([]journal.Record) error { return nil }
func (c *control) Check(journal.Record) error     { return nil }
func (c *control) Ready() error                   { return nil }

func (c *control) Release(journal.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released++
}

// node has pods p1 to p9 in namespace a, and host on its own network.
type node struct {
	*nodeipam.Service
	control *control
	journal *journal.Journal
	manager *attachment.Manager
	store   *store.Store
	driver  ifdriver.Driver
}

func newNode(t *testing.T) *node {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx store.Tx) error {
		err := store.PutHostPod(tx, &store.HostPod{Meta: testrows.Meta("host"), Namespace: "a", Name: "host"})
		for i := range 9 {
			name := fmt.Sprintf("p%d", i+1)
			err = errors.Join(err, store.PutPod(tx, &store.Pod{Meta: testrows.Meta("uid-" + name), Namespace: "a", Name: name, Node: "node1"}))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	n := &node{control: &control{waits: make(chan struct{}, 100)}, store: s}
	if n.journal, err = journal.Open(t.Context(), journal.Config{Path: filepath.Join(dir, "journal"), Log: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.journal.Close() })
	driver, err := addressonly.New(filepath.Join(dir, "notes"), "boot", nil)
	if err != nil {
		t.Fatal(err)
	}
	n.driver = driver
	n.manager = attachment.New(attachment.Config{
		Journal: n.journal, Log: log, Metrics: attachment.NewMetrics(prometheus.NewRegistry()), Drivers: ifdriver.Drivers{addressonly.Kind: driver},
		Decisions: n.control, Datapath: n.control, Releaser: n.control,
	})
	n.Service = n.serving(n.manager)
	return n
}

// serving returns a service with the journal of the node.
func (n *node) serving(manager nodeipam.Manager) *nodeipam.Service {
	return nodeipam.New(nodeipam.Config{
		Manager: manager, Store: n.store, Journal: n.journal, Log: slog.New(slog.DiscardHandler),
	})
}

func request(container, pod string) rest.Request {
	return rest.Request{
		Key: rest.Key{ContainerID: container, IfName: "eth0", PodInterfaceID: container + "-eth0"}, Pod: rest.Pod{Namespace: "a", Name: pod}, Network: "bridge",
	}
}

var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

func TestNodeIPAM_Request_AddressesKeptUntilRelease(t *testing.T) {
	n := newNode(t)
	want := []answer.Interface{{
		Name: "eth0", NIC: wire.InfraNIC, // and no MAC: the client chooses
		Addresses: []answer.Address{{Prefix: netip.MustParsePrefix("10.9.0.1/24"), Gateway: netip.MustParseAddr("10.9.0.1")}},
	}}
	for _, when := range []string{"first", "again"} {
		got, err := n.Request(t.Context(), request("c1", "p1"))
		if diff := cmp.Diff(want, got, byValue); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", when, err, diff)
		}
	}
	list, err := n.Attachments(t.Context(), "c1")
	if err != nil || len(list) != 1 || list[0].State != wire.Assigned || list[0].Key != request("c1", "p1").Key || list[0].Pod.UID != "uid-p1" {
		t.Errorf("attachments are %+v, %v", list, err)
	}
	if list, err := n.Attachments(t.Context(), "c2"); err != nil || len(list) != 0 {
		t.Errorf("of another container %+v, %v", list, err)
	}
	for _, when := range []string{"first", "again"} {
		if err := n.Release(t.Context(), request("c1", "p1").Key); err != nil || n.control.released != 1 || len(n.journal.Records()) != 0 {
			t.Errorf("released %s: %v, left are %+v, %d releases", when, err, n.journal.Records(), n.control.released)
		}
	}
	if list, err := n.Attachments(t.Context(), ""); err != nil || len(list) != 1 || list[0].State != wire.PendingRelease {
		t.Errorf("what waits for its release is %+v, %v", list, err)
	}
}

// TestNodeIPAM_ClientOmitsNamespace_Accepted: alioth-ipam does, clients of CNS do not.
func TestNodeIPAM_ClientOmitsNamespace_Accepted(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	r := request("c1", "p1")
	r.NetnsPath = pod.Path
	if _, err := n.Request(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Request(t.Context(), request("c1", "p1")); err != nil || len(got) != 1 {
		t.Errorf("without a namespace: %+v, %v", got, err)
	}
	if rec := n.journal.Records()[0]; rec.NetnsPath != pod.Path || rec.Device.NetnsCookie == 0 {
		t.Errorf("the record is %+v", rec)
	}
	pod.Close(t)
	if err := n.Collect(t.Context(), "bridge", nil); err != nil || len(n.journal.Records()) != 0 {
		t.Errorf("after the end of the namespace: %v, left are %+v", err, n.journal.Records())
	}
}

func TestNodeIPAM_ReleaseKeys_AttachmentFoundEachWay(t *testing.T) {
	for name, c := range map[string]struct {
		key  rest.Key
		left int
	}{
		"container and interface":          {rest.Key{ContainerID: "c1", IfName: "eth0"}, 1},
		"container and the client's name":  {rest.Key{ContainerID: "c1", PodInterfaceID: "c1-eth0"}, 1},
		"container and another name":       {rest.Key{ContainerID: "c1", PodInterfaceID: "c9-eth0"}, 2},
		"a container":                      {rest.Key{ContainerID: "c1"}, 1},
		"the client's name":                {rest.Key{PodInterfaceID: "c2-eth0"}, 1},
		"another interface":                {rest.Key{ContainerID: "c1", IfName: "net1"}, 2},
		"nothing":                          {rest.Key{}, 2},
		"the interface of no container":    {rest.Key{IfName: "eth0"}, 2},
		"the container of another runtime": {rest.Key{ContainerID: "c3", IfName: "eth0"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			for i, container := range []string{"c1", "c2"} {
				if _, err := n.Request(t.Context(), request(container, fmt.Sprintf("p%d", i+1))); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.Release(t.Context(), c.key); err != nil || len(n.journal.Records()) != c.left {
				t.Errorf("%v, left are %d, want %d", err, len(n.journal.Records()), c.left)
			}
		})
	}
}

func TestNodeIPAM_Refusals_TransientOrCoded(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*node, *rest.Request)
		code     wire.ReturnCode // 0: transient
		text     string
		attached int
	}{
		"a pod that the node has not heard of": {func(_ *node, r *rest.Request) { r.Pod.Name = "p10" }, 0, "has not heard of pod a/p10", 0},
		"a former pod of the name":             {func(_ *node, r *rest.Request) { r.Pod.UID = "former" }, 0, "has not heard of pod a/p1", 0},
		"a pod on the node's network":          {func(_ *node, r *rest.Request) { r.Pod.Name = "host" }, wire.InvalidRequest, "on the network of its node", 0},
		"a pod that ends":                      {func(n *node, _ *rest.Request) { n.control.gone = true }, wire.NotFound, "being deleted", 0},
		"an address of another pod":            {func(_ *node, r *rest.Request) { r.Desired = []netip.Addr{netip.MustParseAddr("10.9.0.2")} }, wire.AddressUnavailable, "10.9.0.1", 0},
		"a second interface of the container": {func(n *node, r *rest.Request) {
			if _, err := n.Request(context.Background(), *r); err != nil {
				panic(err)
			}
			r.IfName = "net1"
		}, wire.InvalidRequest, "has all of its interfaces", 1},
		"an address of another pod, asked for what is attached": {func(n *node, r *rest.Request) {
			if _, err := n.Request(context.Background(), *r); err != nil {
				panic(err)
			}
			r.Desired = []netip.Addr{netip.MustParseAddr("10.9.0.2")}
		}, wire.AddressUnavailable, "10.9.0.1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			r := request("c1", "p1")
			c.change(n, &r)
			_, err := n.Request(t.Context(), r)
			var notReady *rest.NotReady
			var failure *rest.Failure
			ok := c.code == 0 && errors.As(err, &notReady) || c.code != 0 && errors.As(err, &failure) && failure.Code == c.code
			if !ok || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want code %d and %q", err, c.code, c.text)
			}
			if left := len(n.journal.Records()); left != c.attached {
				t.Errorf("%d are attached, want %d", left, c.attached)
			}
		})
	}
}

func TestNodeIPAM_DesiredAddressOfPod_Granted(t *testing.T) {
	n := newNode(t)
	r := request("c1", "p1")
	r.Desired = []netip.Addr{netip.MustParseAddr("10.9.0.1")}
	if got, err := n.Request(t.Context(), r); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// waysToRelease name the attachment of request("c1", "p1").
var waysToRelease = map[string]rest.Key{
	"container and interface":         {ContainerID: "c1", IfName: "eth0", PodInterfaceID: "c1-eth0"},
	"container and the client's name": {ContainerID: "c1", PodInterfaceID: "c1-eth0"},
	"a container":                     {ContainerID: "c1"},
	"the client's name":               {PodInterfaceID: "c1-eth0"},
}

// begin sends a request, and returns where its result comes.
func (n *node) begin(ctx context.Context, r rest.Request) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := n.Request(ctx, r)
		result <- err
	}()
	return result
}

// TestNodeIPAM_DELDuringItsADD_DELWins: the runtime may give up an ADD, and send the DEL before the daemon
// has noticed.
func TestNodeIPAM_DELDuringItsADD_DELWins(t *testing.T) {
	for name, key := range waysToRelease {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.control.undecided = make(chan struct{})
			failed := n.begin(context.Background(), request("c1", "p1"))
			<-n.control.waits // for its decision
			if err := n.Release(t.Context(), key); err != nil {
				t.Errorf("the DEL: %v", err)
			}
			close(n.control.undecided)
			if err := <-failed; err == nil {
				t.Error("the ADD succeeded after its DEL")
			}
			n.expectNothingLeft(t)
			if _, err := n.Request(t.Context(), request("c1", "p1")); err != nil {
				t.Errorf("a later ADD: %v", err)
			}
		})
	}
}

func (n *node) expectNothingLeft(t *testing.T) {
	t.Helper()
	if left := n.journal.Records(); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}

// TestNodeIPAM_ADDDoesNotEnd_DELWaits: what that attaches meanwhile is removed.
func TestNodeIPAM_ADDDoesNotEnd_DELWaits(t *testing.T) {
	for name, key := range waysToRelease {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.control.stubborn = true
			ctx, cancel := context.WithCancel(t.Context())
			ended := n.begin(ctx, request("c1", "p1"))
			<-n.control.waits
			if err := n.Release(t.Context(), key); err != nil {
				t.Errorf("the DEL: %v", err)
			}
			cancel() // if the DEL has not
			if err := <-ended; err != nil {
				t.Logf("the ADD: %v", err)
			}
			n.expectNothingLeft(t)
		})
	}
}

// late is a manager that attaches nothing until it is let.
type late struct {
	nodeipam.Manager
	asked, let chan struct{}
}

func (l *late) Establish(ctx context.Context, r attachment.Request) ([]attachment.Attached, error) {
	l.asked <- struct{}{}
	<-l.let
	return l.Manager.Establish(ctx, r)
}

// TestNodeIPAM_DELOvertakesADD_DELWins: it is over before the manager hears of the ADD. Many
// rounds, because a select would take the lock in half of them.
func TestNodeIPAM_DELOvertakesADD_DELWins(t *testing.T) {
	n := newNode(t)
	manager := &late{Manager: n.manager, asked: make(chan struct{}), let: make(chan struct{})}
	n.Service = n.serving(manager)
	for name, key := range waysToRelease {
		for range 20 {
			failed := n.begin(context.Background(), request("c1", "p1"))
			<-manager.asked
			if err := n.Release(t.Context(), key); err != nil {
				t.Errorf("%s: the DEL: %v", name, err)
			}
			manager.let <- struct{}{}
			if err := <-failed; err == nil {
				t.Errorf("%s: the ADD succeeded after its DEL", name)
			}
			n.expectNothingLeft(t)
		}
	}
}

// TestNodeIPAM_DELOfOther_ADDContinues names another attachment in each way.
func TestNodeIPAM_DELOfOther_ADDContinues(t *testing.T) {
	n := newNode(t)
	n.control.undecided = make(chan struct{})
	attached := n.begin(context.Background(), request("c1", "p1"))
	<-n.control.waits
	for _, key := range []rest.Key{
		{},
		{ContainerID: "c2", IfName: "eth0"},
		{ContainerID: "c2"},
		{ContainerID: "c1", PodInterfaceID: "c1-net1"},
		{ContainerID: "c2", PodInterfaceID: "c1-eth0"},
		{PodInterfaceID: "c1-net1"},
		{IfName: "eth0"},
	} {
		if err := n.Release(t.Context(), key); err != nil {
			t.Errorf("%+v: %v", key, err)
		}
	}
	close(n.control.undecided)
	if err := <-attached; err != nil {
		t.Errorf("the DELs of others ended the ADD: %v", err)
	}
}

func TestNodeIPAM_ParallelRequestsAndReleases_NothingLeft(t *testing.T) {
	n := newNode(t)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			container, pod := fmt.Sprintf("c%d", i%7), fmt.Sprintf("p%d", i%7+1)
			for range 20 {
				var ended *rest.NotReady // by a release
				if _, err := n.Request(t.Context(), request(container, pod)); err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, &ended) {
					t.Errorf("request: %v", err)
				}
				if err := n.Release(t.Context(), request(container, pod).Key); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	group.Wait()
	if left := n.journal.Records(); len(left) != 0 {
		t.Errorf("left are %d records", len(left))
	}
}

func TestNodeIPAMCollect_LivingAttachments_Kept(t *testing.T) {
	n := newNode(t)
	if _, err := n.Request(t.Context(), request("c1", "p1")); err != nil {
		t.Fatal(err)
	}
	if err := n.Collect(t.Context(), "bridge", nil); err != nil || len(n.journal.Records()) != 1 {
		t.Errorf("%v, left are %+v, want the one of this boot", err, n.journal.Records())
	}
}
