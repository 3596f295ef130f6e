// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// releaseCase has the state of store, API and journal for the pod p1, whose Address is on this
// node.
type releaseCase struct {
	inStore, inAPI *corev1.Pod
	// attached: the journal has a record of the pod.
	attached bool
	unsynced bool
	getFails bool
	// kept: the Address stays. queued: the journal's queue stays.
	kept, queued bool
}

func podWith(uid types.UID, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: uid}}
	if change != nil {
		change(pod)
	}
	return pod
}

func deleting(pod *corev1.Pod) {
	now := metav1.Now()
	pod.DeletionTimestamp, pod.Finalizers = &now, []string{"test/hold"}
}

func succeeded(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func TestRelease_PodMayReturn_AddressKept(t *testing.T) {
	cases := map[string]releaseCase{
		"the pod is gone":                           {},
		"the pod is being deleted":                  {inStore: podWith("p1", deleting), inAPI: podWith("p1", deleting)},
		"the pod has ended":                         {inStore: podWith("p1", succeeded), inAPI: podWith("p1", succeeded)},
		"a successor has the name":                  {inAPI: podWith("p2", nil)},
		"the pod lives":                             {inStore: podWith("p1", nil), inAPI: podWith("p1", nil), kept: true},
		"the pod lives and the store lags behind":   {inAPI: podWith("p1", nil), kept: true},
		"the pod is gone but its attachment is not": {attached: true, kept: true},
		"the pod is being deleted, still attached":  {inStore: podWith("p1", deleting), inAPI: podWith("p1", deleting), attached: true, kept: true},
		// Whoever may write pods/status says so of a pod that runs.
		"the pod has ended by its status, still attached": {inStore: podWith("p1", succeeded), inAPI: podWith("p1", succeeded), attached: true, kept: true},
		"the node's pods have not been read yet":          {unsynced: true, kept: true, queued: true},
		"the API server does not answer for the pod":      {getFails: true, kept: true, queued: true},
		"the API server is away and the pod lives on":     {inStore: podWith("p1", nil), getFails: true, kept: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, api := newTestReleaser(t, c)
			_, err := r.pass(t.Context())
			if (err != nil) != c.queued { // else nothing would try again soon
				t.Errorf("pass: %v", err)
			}
			claim := &v1alpha1.AttachmentClaim{}
			// A deleted claim permits no new interface, so it may go although its pod lives.
			want := !c.attached && !c.unsynced
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p1.net1"}, claim); err != nil || claim.Status.Released != want {
				t.Errorf("the interface is reported as released: %t, want %t, error %v", claim.Status.Released, want, err)
			}
			gone := apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKey{Name: "blue.10.10.1.10"}, &v1alpha1.Address{}))
			if gone == c.kept {
				t.Errorf("the Address is gone: %v, want %v", gone, !c.kept)
			}
			if queued := len(r.journal.Releases()) > 0; queued != c.queued {
				t.Errorf("the queue is kept: %v, want %v", queued, c.queued)
			}
		})
	}
}

func none(string) bool { return false }

// TestRelease_NetworkAddress_DoneByItsNode when its pod is gone, and not while an
// interface of the pod is attached.
func TestRelease_NetworkAddress_DoneByItsNode(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	row := &store.Address{
		Meta: store.Meta{UID: "a"}, Name: "u1.net.10.0.0.1", Network: store.NetworkRef{Kind: "ClusterNetwork", Name: "external", UID: "u1"},
		IP: netip.MustParseAddr("10.0.0.1"), Node: "node1", Attachment: "net1", Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"},
	}
	if err := s.Update(func(tx store.Tx) error { return store.PutAddress(tx, row) }); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		attached := func(uid string) bool { return uid == "p1" }
		if free, held := releasable(tx, "node1", leavers(tx, none)), releasable(tx, "node1", leavers(tx, attached)); len(free) != 1 || len(held) != 0 {
			t.Errorf("%d can be released, and %d while the pod is attached; want 1 and 0", len(free), len(held))
		}
	})
}

// TestRelease_EachClaim_OnlyDeletedOfOwnNode once.
func TestRelease_EachClaim_OnlyDeletedOfOwnNode(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	claim := func(name, node string, deleting, released bool) *multinet.Claim {
		return &multinet.Claim{Meta: store.Meta{UID: name, Deleting: deleting}, Namespace: "ns", Name: name, PodUID: "gone", Node: node, Released: released}
	}
	err = s.Update(func(tx store.Tx) error {
		return errors.Join(
			multinet.PutClaim(tx, claim("deleted", "node1", true, false)), multinet.PutClaim(tx, claim("there", "node1", false, false)),
			multinet.PutClaim(tx, claim("released", "node1", true, true)), multinet.PutClaim(tx, claim("elsewhere", "node2", true, false)),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		list := releasableClaims(tx, "node1", none)
		if attached := releasableClaims(tx, "node1", func(string) bool { return true }); len(attached) > 0 {
			t.Errorf("%+v of an attached pod", attached)
		}
		if len(list) != 1 || list[0].Name != "deleted" {
			t.Errorf("%+v, want the deleted one alone", list)
		}
	})
}

func newTestReleaser(t *testing.T, c releaseCase) (*Releaser, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParseAddr("10.10.1.10")
	row := store.Address{
		Meta: store.Meta{UID: "blue.10.10.1.10", ResourceVersion: "1"}, Name: "blue.10.10.1.10", VPC: "blue", Subnet: "blue1", IP: ip, Node: "node1",
		MAC: "02:00:00:00:00:01", Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"}, Set: []netip.Addr{ip},
	}
	objects := []client.Object{
		&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: row.Name}},
		&v1alpha1.AttachmentClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1.net1", UID: "c1"}},
	}
	if c.inAPI != nil {
		objects = append(objects, c.inAPI)
	}
	api := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.AttachmentClaim{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, isPod := obj.(*corev1.Pod); isPod && c.getFails {
					return errors.New("no answer")
				}
				return inner.Get(ctx, key, obj, opts...)
			},
		}).
		Build()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx store.Tx) error {
		if pod := c.inStore; pod != nil {
			err := store.PutPod(tx, &store.Pod{
				Meta:      store.Meta{UID: string(pod.UID), ResourceVersion: "1", Deleting: pod.DeletionTimestamp != nil},
				Namespace: "ns", Name: "p1", Node: "node1", Terminal: pod.Status.Phase == corev1.PodSucceeded,
			})
			if err != nil {
				return err
			}
		}
		claim := &multinet.Claim{Meta: store.Meta{UID: "c1", Deleting: true}, Namespace: "ns", Name: "p1.net1", PodName: "p1", PodUID: "p1", Node: "node1"}
		return errors.Join(store.PutAddress(tx, &row), multinet.PutClaim(tx, claim))
	})
	if err != nil {
		t.Fatal(err)
	}
	j := queueJournal(t, c.attached)
	r := New("node1", s, j, madeUpAPI{api}, facts{NewHeld(j), !c.unsynced}, slog.New(slog.DiscardHandler))
	return r, api
}

// facts implements Facts.
type facts struct {
	*Held
	complete bool
}

// Complete implements Facts.
func (f facts) Complete() bool { return f.complete }

// madeUpAPI has the requests of a releaser made of a client that needs no API
// server.
type madeUpAPI struct{ client client.Client }

func (a madeUpAPI) Get(ctx context.Context, obj kube.Object) error {
	return a.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}

func (a madeUpAPI) Delete(ctx context.Context, obj kube.Object, uid types.UID) error {
	return a.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
}

func (a madeUpAPI) Patch(ctx context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error {
	if !slices.Equal(subresource, []string{"status"}) {
		return fmt.Errorf("subresource %q", subresource)
	}
	return a.client.Status().Patch(ctx, obj, client.RawPatch(kind, data))
}

// queueJournal has an attachment of p1 in its release queue, and another one
// that lives if so wanted.
func queueJournal(t *testing.T, attached bool) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{
		Path: filepath.Join(t.TempDir(), "journal.log"), Shadow4: netip.MustParsePrefix("169.254.64.0/18"), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := j.Retire(begin(t, j, "p1", "old")); err != nil {
		t.Fatal(err)
	}
	if attached {
		begin(t, j, "p1", "new")
	}
	return j
}

// begin writes an attachment of a pod into a journal.
func begin(t *testing.T, j *journal.Journal, pod, container string) journal.Key {
	t.Helper()
	rec, err := j.Begin(journal.Record{
		Identity:  journal.Identity{Key: journal.Key{ContainerID: container, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: pod, UID: pod}},
		Interface: journal.Interface{Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec.Key
}

// TestRelease_OneFails_OtherPodsReleased in the journal's queue.
func TestRelease_OneFails_OtherPodsReleased(t *testing.T) {
	r, _ := newTestReleaser(t, releaseCase{getFails: true})
	if err := r.journal.Retire(begin(t, r.journal, "p2", "other")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.pass(t.Context()); err == nil {
		t.Error("the pass tells of no failure")
	}
	left := r.journal.Releases()
	if len(left) != 1 || left[0].Pod.UID != "p1" {
		t.Errorf("the queue has %+v, want the entry of p1 alone", left)
	}
}
