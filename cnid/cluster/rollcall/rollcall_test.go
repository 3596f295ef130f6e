// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// rows are the rows that the store has received.
type rows struct {
	Addresses []store.Address
	Pods      []store.Pod
}

func (r rows) fill(tx store.Tx) error {
	var failures []error
	for _, row := range r.Addresses {
		failures = append(failures, store.PutAddress(tx, &row))
	}
	for _, row := range r.Pods {
		failures = append(failures, store.PutPod(tx, &row))
	}
	return errors.Join(failures...)
}

// fixed has the same records always.
type fixed []journal.Record

func (f fixed) Records() []journal.Record { return f }

func TestRollCall_StoreHasDecisiveObjects_Agrees(t *testing.T) {
	records := []journal.Record{{
		Identity: journal.Identity{Pod: journal.Pod{Namespace: "ns", Name: "p1", UID: "p1"}}, Binding: journal.Binding{VPC: "blue"},
		Interface: journal.Interface{Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24")}},
	}}
	ip := netip.MustParseAddr("10.10.1.10")
	row := store.Address{
		Meta: store.Meta{UID: "address", ResourceVersion: "1"}, Name: v1alpha1.AddressName("blue", ip), VPC: "blue", Subnet: "blue1", IP: ip, Node: "node1",
		MAC: "02:00:00:00:00:01", Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"}, Set: []netip.Addr{ip},
	}
	object := v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: row.Name, UID: types.UID(row.UID)}}
	object.Spec.Node = "node1"
	another, elsewhere, foreign := object, object, row
	another.UID, elsewhere.Spec.Node, foreign.Node = "another", "node2", "node2"
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "p1"}}
	known := store.Pod{Meta: store.Meta{UID: "p1", ResourceVersion: "1"}, Namespace: "ns", Name: "p1", Node: "node1"}
	status := `[{"name":"eth0","vpc":"blue","addresses":["10.10.1.10/24"]}]`
	reserves := pod
	reserves.Annotations = map[string]string{v1alpha1.AttachmentsAnnotation: status, arktosv1.ReadinessAnnotation: "true"}
	reserves.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.NetworkReadyCondition, Status: corev1.ConditionTrue, Reason: v1alpha1.AttachedReason}}
	ends := reserves
	ends.DeletionTimestamp = &metav1.Time{}
	confirmed := known
	confirmed.Attachments, confirmed.NetworkReady, confirmed.Reason = status, true, v1alpha1.AttachedReason
	ending := confirmed
	ending.Deleting = true
	for name, c := range map[string]struct {
		rows      rows
		addresses []v1alpha1.Address
		pods      []corev1.Pod
		want      bool
		// reads is the number of Addresses that are read by their names.
		reads int
	}{
		"it has heard everything":         {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{object}, []corev1.Pod{pod}, true, 1},
		"all is gone":                     {rows{}, nil, nil, true, 1},
		"the Address is gone":             {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, nil, []corev1.Pod{pod}, false, 1},
		"the Address has come":            {rows{Pods: []store.Pod{known}}, []v1alpha1.Address{object}, []corev1.Pod{pod}, false, 1},
		"the Address has a different UID": {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{another}, []corev1.Pod{pod}, false, 1},
		"the Address is on another node":  {rows{Addresses: []store.Address{foreign}, Pods: []store.Pod{known}}, nil, []corev1.Pod{pod}, true, 1},
		"the Address moved to node2":      {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{elsewhere}, []corev1.Pod{pod}, false, 1},
		"the pod is gone":                 {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{object}, nil, false, 1},
		"the pod was told something":      {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{object}, []corev1.Pod{reserves}, false, 0},
		"the living pod reserves it":      {rows{Addresses: []store.Address{row}, Pods: []store.Pod{confirmed}}, []v1alpha1.Address{object}, []corev1.Pod{reserves}, true, 0},
		"reserved, and the Address gone":  {rows{Addresses: []store.Address{row}, Pods: []store.Pod{confirmed}}, nil, []corev1.Pod{reserves}, true, 0},
		"a pod that ends has it":          {rows{Addresses: []store.Address{row}, Pods: []store.Pod{ending}}, []v1alpha1.Address{object}, []corev1.Pod{ends}, true, 1},
		"a pod that ends has it no more":  {rows{Addresses: []store.Address{row}, Pods: []store.Pod{ending}}, nil, []corev1.Pod{ends}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.New()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Update(c.rows.fill); err != nil {
				t.Fatal(err)
			}
			server, passes := &server{pods: c.pods, addresses: c.addresses}, &passes{}
			err = New("node1", s, fixed(records), server, nil, passes, store.CountNodes, time.Minute, slog.New(slog.DiscardHandler)).agree(t.Context())
			if got := err == nil; got != c.want || err != nil && !errors.Is(err, errBehind) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if server.reads != c.reads || passes.programmed != c.want {
				t.Errorf("it read %d Addresses, want %d; it waited for a pass: %v", server.reads, c.reads, passes.programmed)
			}
		})
	}
}

func TestRollCall_NodeWithoutAttachments_NothingRead(t *testing.T) {
	passes := &passes{}
	none := New("node1", nil, fixed(nil), nil, nil, passes, store.CountNodes, time.Minute, slog.New(slog.DiscardHandler))
	if err := none.agree(t.Context()); err != nil || !passes.programmed {
		t.Errorf("got %v; it waited for a pass: %v", err, passes.programmed)
	}
}

// TestRollCallReply_UntilWriteFails_NoRead: another process may have written, or the
// object may be gone.
func TestRollCallReply_UntilWriteFails_NoRead(t *testing.T) {
	written := &replies{}
	r := New("node1", nil, nil, written, nil, nil, store.CountNodes, time.Minute, slog.New(slog.DiscardHandler))
	write := func(call string, fails bool) {
		t.Helper()
		if err := r.write(t.Context(), reply{call: call, nodeUID: "n"}); (err != nil) != fails {
			t.Fatalf("call %s: %v", call, err)
		}
	}
	write("first", false)
	write("second", false)
	written.version = 7 // somebody else has written
	write("third", true)
	write("third", false)
	if want := "get create 1, update 1 to 2, update 2 refused, get update 7 to 8"; written.log != want || written.call != "third" {
		t.Errorf("%s; want %s; the call is %q", written.log, want, written.call)
	}
}

// TestRollCallReply_DeletedOrChanged_Rewritten without a new call: the operator reads a
// missing reply as a node without a daemon.
func TestRollCallReply_DeletedOrChanged_Rewritten(t *testing.T) {
	written := &replies{}
	r := New("node1", nil, nil, written, nil, &passes{}, store.CountNodes, time.Minute, slog.New(slog.DiscardHandler))
	var last reply
	for _, step := range []struct {
		name, log string
		harm      func()
	}{
		{"the first reply", "get create 1", func() {}},
		{"nobody has touched it", "get ", func() {}},
		{"somebody has deleted it", "get , get create 1", func() { written.version = 0 }},
		{"somebody has changed it", "get update 7 to 8", func() { written.version, written.call = 7, "wrong" }},
		{"nobody has touched the new one", "get ", func() {}},
	} {
		step.harm()
		written.log = ""
		var err error
		if last, err = r.answer(t.Context(), task{call: "first", nodeUID: "n"}, last); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if written.log != step.log || written.call != "first" {
			t.Errorf("%s: %q, want %q; the call is %q", step.name, written.log, step.log, written.call)
		}
	}
}

// replies is an API server with one reply, which refuses a write of an older version.
type replies struct {
	api
	version   int
	call, log string
}

func (r *replies) Get(_ context.Context, object kube.Object) error {
	if r.log != "" {
		r.log += ", "
	}
	if r.log += "get "; r.version == 0 {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("rollcalls").GroupResource(), object.GetName())
	}
	object.SetResourceVersion(strconv.Itoa(r.version))
	return nil
}

func (r *replies) Create(_ context.Context, object kube.Object) error {
	r.version, r.call = 1, object.(*v1alpha1.RollCall).Spec.Call
	object.SetResourceVersion("1")
	r.log += "create 1"
	return nil
}

func (r *replies) Update(_ context.Context, object kube.Object) error {
	if !strings.HasSuffix(r.log, "get ") {
		r.log += ", "
	}
	had := object.GetResourceVersion()
	if r.log += "update " + had; had != strconv.Itoa(r.version) {
		r.log += " refused"
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("rollcalls").GroupResource(), object.GetName(), errBehind)
	}
	r.version++
	r.call = object.(*v1alpha1.RollCall).Spec.Call
	object.SetResourceVersion(strconv.Itoa(r.version))
	r.log += " to " + object.GetResourceVersion()
	return nil
}

// server has objects, and counts the Addresses that are read.
type server struct {
	api
	pods      []corev1.Pod
	addresses []v1alpha1.Address
	reads     int
}

func (s *server) List(_ context.Context, list runtime.Object, _, selector string) error {
	if selector != "spec.nodeName=node1" {
		return errors.New("it lists " + selector)
	}
	list.(*corev1.PodList).Items = s.pods
	return nil
}

func (s *server) Get(_ context.Context, object kube.Object) error {
	s.reads++
	for i := range s.addresses {
		if s.addresses[i].Name == object.GetName() {
			s.addresses[i].DeepCopyInto(object.(*v1alpha1.Address))
			return nil
		}
	}
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("addresses").GroupResource(), object.GetName())
}

// passes notes whether a pass was waited for.
type passes struct {
	Passes
	programmed bool
}

func (*passes) VNIs() []uint32 { return []uint32{7} }

func (p *passes) Programmed(context.Context) error {
	p.programmed = true
	return nil
}

// cut is a node without its API server, whose daemon is told to end during a request.
type cut struct {
	Passes
	api
	end context.CancelFunc
}

func (cut) PodMTU() (int, <-chan struct{}) { return 1400, nil }

func (c cut) List(ctx context.Context, _ runtime.Object, _, _ string) error {
	c.end()
	return ctx.Err()
}

func TestRollCall_Unanswered_DaemonNotBlocked(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "n", ResourceVersion: "1"}, Name: "node1"})
	}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	node := cut{end: end}
	synced := broadcast.Open
	New("node1", s, fixed{{}}, node, synced, node, store.CountNodes, time.Minute, slog.New(slog.DiscardHandler)).Run(ctx)
}
