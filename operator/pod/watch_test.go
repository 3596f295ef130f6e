// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// counted is a queue that notes the requests.
type counted struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
}

func (c *counted) Add(request reconcile.Request) { c.names = append(c.names, request.Name) }

func (c *counted) AddAfter(request reconcile.Request, _ time.Duration) { c.Add(request) }

// share is the number of a tenant's pods that are decided as early as pods of other tenants.
const share = 32

// waitingPods has a pod of tenant blue that waits for each of the things that may help it, and
// others pods of another tenant that wait for the same.
func waitingPods(others int) *waiting {
	w := newWaiting()
	for name, d := range map[string]decision{
		"network":  {verb: refuse},
		"address":  {verb: assign, desired: []Desired{{Binding: Binding{VPC: "v"}}}},
		"elsewise": {verb: assign, desired: []Desired{{Binding: Binding{VPC: "w"}}}},
	} {
		w.wait(types.NamespacedName{Namespace: "a", Name: name}, "blue", keysOf(&store.Pod{Tenant: "blue"}, d, nil))
	}
	for i := range others {
		d := decision{verb: refuse}
		if i%2 == 0 {
			d = decision{verb: assign, desired: []Desired{{Binding: Binding{VPC: "theirs"}}}}
		}
		w.wait(types.NamespacedName{Namespace: "b", Name: fmt.Sprint("flood", i)}, "flood", keysOf(&store.Pod{Tenant: "flood"}, d, nil))
	}
	return w
}

// TestPodRequests_TenantChanges_OnlyItsPods has the changes that a tenant can make without limit.
// None of them requests waiting pods of another tenant, so that a change costs the same however
// many they are.
func TestPodRequests_TenantChanges_OnlyItsPods(t *testing.T) {
	mine := operatortest.Pod("blue", "a", "mine", "n", "")
	gone := *mine
	gone.Deleting = true
	held := operatortest.Address("v", "s1", "10.0.1.9", mine)
	outside := &multinet.Network{
		Meta: operatortest.Meta("uid-tn", 0),
		Ref:  multinet.Ref{Group: "danm.io", Kind: multinet.KindTenantNetwork, Namespace: "a", Name: "tn"},
	}
	figures := *outside
	figures.ResourceVersion = "2"
	isReady := figures
	isReady.Ready = true
	all := []string{"address", "elsewise", "network"}
	for _, tc := range []struct {
		name   string
		change feed.Change
		want   []string
	}{
		{"a pod ends", feed.Change{Old: mine, New: &gone}, []string{"address", "mine"}},
		{"an address is released", feed.Change{Old: held}, []string{"address", "mine"}},
		{"a pod comes", feed.Change{New: mine}, []string{"mine"}},
		{"a Network", feed.Change{New: operatortest.Network("blue", "a", "n", "v", 0)}, all},
		{"a Network goes", feed.Change{Old: operatortest.Network("blue", "a", "n", "v", 0)}, all},
		{"a TenantNetwork", feed.Change{New: outside}, all},
		{"a TenantNetwork is ready", feed.Change{Old: outside, New: &isReady}, all},
		{"the figures of a TenantNetwork", feed.Change{Old: outside, New: &figures}, nil},
		{"a definition", feed.Change{New: &multinet.Definition{Namespace: "a", Name: "nad"}}, all},
		{"a PodNetworkInstance", feed.Change{New: &nodeipam.Instance{Ref: nodeipam.Ref{Namespace: "a", Name: "i"}}}, all},
		{"a PodNetworkInstance releases addresses", feed.Change{Old: &nodeipam.Instance{
			Ref: nodeipam.Ref{Namespace: "c", Name: "i"}, Reserved: []nodeipam.Reserved{{VPC: "w"}},
		}}, []string{"elsewise"}},
		{"a namespace leaves the tenant", feed.Change{
			Old: &store.Namespace{Name: "x", Tenant: "blue"}, New: &store.Namespace{Name: "x", Tenant: "red"},
		}, all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			namespaces := []any{
				&store.Namespace{Meta: operatortest.Meta("ns-a", 0), Name: "a", Tenant: "blue"},
				&store.Namespace{Meta: operatortest.Meta("ns-c", 0), Name: "c", Tenant: "green"}, held,
			}
			for _, others := range []int{0, 1000} {
				s := operatortest.New(t, namespaces...)
				f := feed.New(s, logr.Discard())
				r := &Reconciler{Options: Options{Store: s, Claimer: &claim.Claimer{}}, waiting: waitingPods(others)}
				queue := &counted{}
				if err := r.source(f).Start(context.Background(), queue); err != nil {
					t.Fatal(err)
				}
				f.Publish(tc.change)
				slices.Sort(queue.names)
				if got := slices.Compact(queue.names); !slices.Equal(got, tc.want) {
					t.Errorf("with %d pods of another tenant: requested are %d, %.200q; want %q", others, len(got), got, tc.want)
				}
			}
		})
	}
}

// TestPodRequests_LentDefinition_OnlyPodsAllowed has a crowd name the definitions of a
// namespace that is lent to another one alone.
func TestPodRequests_LentDefinition_OnlyPodsAllowed(t *testing.T) {
	rows := []any{
		&store.Namespace{Meta: operatortest.Meta("ns-shared", 0), Name: "shared", Tenant: "red"},
		&multinet.Grant{Meta: operatortest.Meta("grant", 0), Name: "grant", Namespaces: []string{"a"}, FromNamespaces: []string{"shared"}},
	}
	s := operatortest.New(t, rows...)
	f := feed.New(s, logr.Discard())
	r := &Reconciler{Options: Options{Store: s, Claimer: &claim.Claimer{}}, waiting: newWaiting()}
	for _, pod := range []*store.Pod{
		{Namespace: "a", Name: "borrower", Tenant: "blue", Selections: "shared/nad"},
		{Namespace: "a", Name: "as-eth0", Tenant: "blue", DefaultSelection: "shared/nad"},
		{Namespace: "a", Name: "own", Tenant: "blue", Selections: "nad"},
		{Namespace: "b", Name: "stranger", Tenant: "flood", Selections: "none,shared/nad"},
	} {
		var lenders []string
		s.View(func(tx store.ReadTx) { lenders = r.lenders(tx, pod) })
		r.waiting.wait(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.Tenant, keysOf(pod, decision{verb: refuse}, lenders))
	}
	queue := &counted{}
	if err := r.source(f).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	f.Publish(feed.Change{New: &multinet.Definition{Namespace: "shared", Name: "nad"}})
	slices.Sort(queue.names)
	if want := []string{"as-eth0", "borrower"}; !slices.Equal(queue.names, want) {
		t.Errorf("requested are %q, want %q", queue.names, want)
	}
}

// TestPodRequests_PodBeingDecided_EveryChange: the changes that may help it are not known yet.
func TestPodRequests_PodBeingDecided_EveryChange(t *testing.T) {
	w, pod := newWaiting(), types.NamespacedName{Namespace: "a", Name: "p"}
	wants := func(when string, want int, keys ...string) {
		t.Helper()
		if got := w.wake(keys...); len(got) != want || want == 1 && got[0].NamespacedName != pod {
			t.Errorf("%s %v is woken", when, got)
		}
	}
	w.begin(pod)
	wants("while it is decided", 1, keyOfTenant("x"))
	w.wait(pod, "y", []string{keyOfTenant("y"), keyOfDomain("v")})
	wants("by a key of others", 0, keyOfTenant("x"))
	wants("by two keys", 1, keyOfTenant("y"), keyOfDomain("v"))
	wants("once it is requested", 0, keyOfTenant("y"), keyOfDomain("v"))
	w.wait(pod, "y", []string{keyOfTenant("y")})
	wants("by everything", 1)
	if w.remove(pod); len(w.pods) > 0 || len(w.by) > 1 {
		t.Errorf("%v is left", w)
	}
}

// TestPodRequests_Crowd_WokenOnceByTurns: many changes of a tenant make at most one request per pod, and a
// limited number of requests at a time.
func TestPodRequests_Crowd_WokenOnceByTurns(t *testing.T) {
	r := &Reconciler{waiting: waitingPods(10 * share)}
	requests := r.wake()
	for range 100 {
		requests = append(requests, r.wakeUnder(keyOfTenant("flood"))...)
	}
	if len(requests) != 10*share+3 {
		t.Errorf("%d requests for %d pods", len(requests), 10*share+3)
	}
	due := map[time.Duration]int{}
	for _, request := range requests {
		if due[request.After]++; request.Namespace == "a" && request.After != wakeAfter {
			t.Errorf("a pod of another tenant is requested by %+v", request)
		}
	}
	for after, count := range due {
		if count > share+3 {
			t.Errorf("%d pods are due after %s", count, after)
		}
	}
}

// TestPodQueue_Crowd_OtherTenantSoonServed: however many pods of a tenant come at once, few of them are decided
// before a pod of another tenant.
func TestPodQueue_Crowd_OtherTenantSoonServed(t *testing.T) {
	s := operatortest.New(t,
		&store.Namespace{Meta: operatortest.Meta("ns-crowd", 0), Name: "crowd", Tenant: "crowd"},
		&store.Namespace{Meta: operatortest.Meta("ns-calm", 0), Name: "calm", Tenant: "calm"})
	f, r := feed.New(s, logr.Discard()), &Reconciler{Options: Options{Store: s, Claimer: &claim.Claimer{}}, waiting: newWaiting()}
	source, queue := r.source(f), priorityqueue.New[reconcile.Request]("pods")
	t.Cleanup(queue.ShutDown)
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for i := range 100 * share {
		f.Publish(feed.Change{New: operatortest.Pod("crowd", "crowd", fmt.Sprint("p", i), "", "")})
	}
	f.Publish(feed.Change{New: operatortest.Pod("calm", "calm", "p", "", "")})
	for before := 0; ; before++ {
		if request, _, _ := queue.GetWithPriority(); request.Namespace == "calm" {
			return
		}
		if before == share {
			t.Fatalf("more than %d pods of the crowd come before", share)
		}
	}
}
