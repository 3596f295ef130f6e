// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// fakeAPI keeps one NodeRoles object and the patches of members.
type fakeAPI struct {
	mu      sync.Mutex
	object  *v1alpha1.NodeRoles
	writes  []time.Time
	patches []string
	fail    error
	// refused is the name of a member that can't be patched.
	refused string
}

func (f *fakeAPI) Get(_ context.Context, obj kube.Object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.object == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "noderoles"}, obj.GetName())
	}
	f.object.DeepCopyInto(obj.(*v1alpha1.NodeRoles))
	return nil
}

func (f *fakeAPI) put(obj kube.Object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.object, f.writes = obj.(*v1alpha1.NodeRoles).DeepCopy(), append(f.writes, time.Now())
	return nil
}

func (f *fakeAPI) Create(_ context.Context, obj kube.Object) error { return f.put(obj) }

func (f *fakeAPI) Update(_ context.Context, obj kube.Object) error {
	f.mu.Lock()
	gone := f.object == nil
	f.mu.Unlock()
	if gone {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "noderoles"}, obj.GetName())
	}
	return f.put(obj)
}

func (f *fakeAPI) Patch(_ context.Context, obj kube.Object, _ types.PatchType, data []byte, subresource ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patches = append(f.patches, fmt.Sprint(obj.GetName(), subresource, string(data)))
	if obj.GetName() == f.refused {
		return errors.New("refused")
	}
	return f.fail
}

// written returns the revisions that the object has, and how often it was written.
func (f *fakeAPI) written() (listed map[string]int64, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.object == nil {
		return nil, 0
	}
	listed = map[string]int64{}
	for _, vpc := range f.object.Spec.VPCs {
		listed[vpc.UID] = vpc.Revision
	}
	return listed, len(f.writes)
}

// passes are the passes of a node.
type passes struct {
	mu     sync.Mutex
	roles  plan.Roles
	passed bool
	done   broadcast.Signal
}

func (p *passes) programmed() (plan.Roles, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles, p.passed, p.done.Next()
}

func (p *passes) pass(now plan.Roles) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles, p.passed = now, true
	p.done.Send()
}

// node is a node with a running Reporter.
type node struct {
	store *store.Store
	api   *fakeAPI
	passes
}

func start(t *testing.T) *node {
	t.Helper()
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{store: rows, api: &fakeAPI{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		New("n", n.api, rows, n.programmed, store.CountNodes, slog.New(slog.DiscardHandler)).Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

func (n *node) put(t *testing.T, change func(store.Tx) error) {
	t.Helper()
	if err := n.store.Update(change); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func self(uid string) func(store.Tx) error {
	return func(tx store.Tx) error { return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: uid}, Name: "n"}) }
}

func listed(revision int64) plan.Roles { return plan.Roles{Listed: map[string]int64{"vpc": revision}} }

func TestRoleReport_PassProgrammed_NodeReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.put(t, self("u1"))
		if _, times := n.api.written(); times != 0 {
			t.Error("the node reports before a pass")
		}
		n.pass(plan.Roles{})
		synctest.Wait()
		if got, times := n.api.written(); times != 1 || len(got) > 0 || n.api.object.Spec.Protocol != v1alpha1.RoleProtocol {
			t.Errorf("%d reports, the last one %v, want one without lists", times, got)
		}
		if owner := n.api.object.OwnerReferences; len(owner) != 1 || owner[0].UID != "u1" || owner[0].Kind != "Node" || owner[0].Name != "n" {
			t.Errorf("owners %v, want the Node", owner)
		}
	})
}

func TestRoleReport_SeveralAtOnce_Batched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.put(t, self("u1"))
		for revision := range int64(6) {
			n.pass(listed(revision + 1))
			synctest.Wait()
		}
		if got, times := n.api.written(); times != 1 || got["vpc"] != 1 {
			t.Errorf("%d reports, the last one %v, want the first revision at once and the others later", times, got)
		}
		time.Sleep(together) //nolint:forbidigo // virtual time
		synctest.Wait()
		if got, times := n.api.written(); times != 2 || got["vpc"] != 6 {
			t.Errorf("%d reports, the last one %v, want two and revision 6", times, got)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		synctest.Wait()
		if _, times := n.api.written(); times != 2 {
			t.Errorf("%d reports without a change, want none more", times)
		}
	})
}

func TestRoleReport_NodeSuccessor_ReportsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.put(t, self("u1"))
		n.pass(listed(3))
		synctest.Wait()
		n.put(t, self("u2"))
		time.Sleep(together) //nolint:forbidigo // virtual time
		synctest.Wait()
		if owner := n.api.object.OwnerReferences; len(owner) != 1 || owner[0].UID != "u2" {
			t.Errorf("owners %v, want the successor", owner)
		}
	})
}

func TestRoleReport_MemberTablesComplete_MemberReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.put(t, self("u1"))
		member := func(name, nodeUID string, complete bool) func(store.Tx) error {
			return func(tx store.Tx) error {
				return roles.PutMember(
					tx,
					&roles.Member{Meta: store.Meta{UID: name + "-uid"}, Name: name, VPC: "v", VPCUID: "vpc", Node: "n", NodeUID: nodeUID, Complete: complete},
				)
			}
		}
		n.put(t, member("own", "u1", false))
		n.put(t, member("of a predecessor", "u0", false))
		n.put(t, member("reported", "u1", true))
		n.put(t, member("incomplete", "u1", false))
		n.api.fail = errors.New("the API server is away")
		n.pass(plan.Roles{Complete: map[string]bool{"own": true, "of a predecessor": true, "reported": true}})
		synctest.Wait()
		n.api.mu.Lock()
		n.api.fail = nil
		n.api.mu.Unlock()
		time.Sleep(retryAfter) //nolint:forbidigo // virtual time
		synctest.Wait()
		n.put(t, member("own", "u1", true)) // its event
		time.Sleep(retryAfter)              //nolint:forbidigo // virtual time
		synctest.Wait()
		want := `own[status]{"metadata":{"uid":"own-uid"},"status":{"complete":true}}`
		n.api.mu.Lock()
		defer n.api.mu.Unlock()
		if len(n.api.patches) < 2 {
			t.Errorf("%d patches, want one that fails and another", len(n.api.patches))
		}
		for _, got := range n.api.patches {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		}
	})
}

// TestRoleReport_OneMemberRefused_OthersReported: neither another member nor the node's lists.
func TestRoleReport_OneMemberRefused_OthersReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t)
		n.put(t, self("u1"))
		n.api.refused = "a"
		for _, name := range []string{"a", "b"} {
			n.put(t, func(tx store.Tx) error {
				return roles.PutMember(tx, &roles.Member{Meta: store.Meta{UID: name}, Name: name, VPC: "v", VPCUID: "vpc", Node: "n", NodeUID: "u1"})
			})
		}
		n.pass(plan.Roles{Listed: map[string]int64{"vpc": 3}, Complete: map[string]bool{"a": true, "b": true}})
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		if got, _ := n.api.written(); got["vpc"] != 3 {
			t.Errorf("listed is %v, want revision 3", got)
		}
		n.api.mu.Lock()
		defer n.api.mu.Unlock()
		times := map[byte]int{}
		for _, patch := range n.api.patches {
			times[patch[0]]++
		}
		if times['a'] < 2 || times['a'] > 70 || times['b'] != 1 {
			t.Errorf("%d attempts for the refused member and %d for the other, want some and one", times['a'], times['b'])
		}
	})
}

func TestRoleReport_LargeCluster_TimesSpread(t *testing.T) {
	if got := pause(manyNodes); got != together {
		t.Errorf("pause %s with few nodes, want %s", got, together)
	}
	seen := map[time.Duration]bool{}
	for range 50 {
		got := pause(manyNodes + 1)
		if got < together || got >= together+spread {
			t.Errorf("pause %s, want one from %s to %s", got, together, together+spread)
		}
		seen[got] = true
	}
	if len(seen) < 2 {
		t.Error("all nodes pause for the same time")
	}
}

// TestRoleReport_Deleted_Recreated: a report is written without reading it first, until a
// write fails.
func TestRoleReport_Deleted_Recreated(t *testing.T) {
	server := &fakeAPI{}
	r := New("n", server, nil, nil, store.CountNodes, slog.New(slog.DiscardHandler))
	write := func(revision int64) error {
		return r.list(t.Context(), report{nodeUID: "n-uid", listed: map[string]int64{"blue": revision}})
	}
	if err := errors.Join(write(1), write(2)); err != nil {
		t.Fatal(err)
	}
	server.object = nil
	if err := write(3); !apierrors.IsNotFound(err) {
		t.Fatalf("a report whose object is gone: %v", err)
	}
	if err := write(3); err != nil {
		t.Fatal(err)
	}
	if got := server.object.Spec.VPCs; len(got) != 1 || got[0].Revision != 3 {
		t.Errorf("reported are %v", got)
	}
}
