// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identities

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

var start = time.Unix(1_000_000, 0)

func selectsApp(key string) bool { return key == "app" }

func podOf(uid, app string) Pod {
	return Pod{UID: uid, Identity: policy.Identity{VPC: "red", Namespace: "n", Labels: map[string]string{"app": app}}, Selected: selectsApp}
}

func setOf(app string) identity.Set {
	pod := podOf("", app)
	return identity.Of(&pod.Identity, selectsApp)
}

// numberOf returns a number for a set: the first one at 0.
func numberOf(app string, at int) uint32 {
	set := setOf(app)
	for number := range set.Numbers() {
		if at == 0 {
			return number
		}
		at--
	}
	return 0
}

func identityOf(app string) Identity {
	return Identity{UID: "of-" + app, Number: numberOf(app, 0), Set: setOf(app)}
}

func addressOf(name, pod string, number uint32) Address {
	return Address{Name: name, UID: "a-" + name, Pod: pod, Identity: number}
}

// said describes steps, without the sets.
func said(s Steps) (all []string) {
	for _, one := range s.Create {
		all = append(all, fmt.Sprint("create ", one.Number))
	}
	for _, p := range s.Patch {
		all = append(all, fmt.Sprintf("patch %s from %d to %d", p.Address.Name, p.From, p.To))
	}
	for _, one := range s.Delete {
		all = append(all, fmt.Sprint("delete ", one.Number))
	}
	for _, uid := range s.Resting {
		all = append(all, "rest "+uid)
	}
	for _, one := range s.Release {
		all = append(all, fmt.Sprint("release ", one.Number))
	}
	return all
}

func TestPlan_Pods_IdentityOfTheirLabels(t *testing.T) {
	web, db := identityOf("web"), identityOf("db")
	resting := web
	resting.Deleting = true
	create := fmt.Sprint("create ", web.Number)
	for name, c := range map[string]struct {
		snapshot Snapshot
		want     []string
		err      error
	}{
		"a new set":           {Snapshot{Pods: []Pod{podOf("p", "web"), podOf("q", "web")}, Settled: true}, []string{create}, nil},
		"an unsettled term":   {Snapshot{Pods: []Pod{podOf("p", "web")}}, nil, ErrUnsettled},
		"a known set":         {Snapshot{Pods: []Pod{podOf("p", "web")}, Identities: []Identity{web}}, nil, nil},
		"the number is taken": {Snapshot{Pods: []Pod{podOf("p", "web")}, Settled: true, Taken: map[uint32]bool{web.Number: true}}, []string{fmt.Sprint("create ", numberOf("web", 1))}, nil},
		"another set has the number": {
			Snapshot{Pods: []Pod{podOf("p", "web")}, Identities: []Identity{{UID: "x", Number: web.Number, Set: setOf("db")}}, Settled: true},
			[]string{fmt.Sprint("create ", numberOf("web", 1))},
			nil,
		},
		"the number rests": {
			Snapshot{Pods: []Pod{podOf("p", "web")}, Identities: []Identity{resting}, Settled: true}, []string{fmt.Sprint("create ", numberOf("web", 1))}, nil,
		},
		"an Address has the number without an object": {
			Snapshot{Pods: []Pod{podOf("p", "web")}, Addresses: []Address{addressOf("v4", "p", web.Number)}, Settled: true},
			[]string{fmt.Sprint("create ", numberOf("web", 1))},
			nil,
		},
		"other labels": {
			Snapshot{
				Pods: []Pod{podOf("p", "web")}, Identities: []Identity{web, db}, Reported: map[uint32]bool{web.Number: true},
				Addresses: []Address{addressOf("v4", "p", db.Number), addressOf("v6", "p", web.Number), addressOf("other", "q", db.Number)},
			},
			[]string{fmt.Sprintf("patch v4 from %d to %d", db.Number, web.Number)},
			nil,
		},
		"other labels, and nodes lack the identity": {
			Snapshot{Pods: []Pod{podOf("p", "web")}, Identities: []Identity{web, db}, Addresses: []Address{addressOf("v4", "p", db.Number)}}, nil, nil,
		},
	} {
		steps := NewTerm().Plan(&c.snapshot, start)
		if got := said(steps); !slices.Equal(got, c.want) || !errors.Is(steps.Waiting["p"], c.err) {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, steps.Waiting, c.want, c.err)
		}
	}
}

func TestPlan_NewIdentity_AddressesWaitForNodes(t *testing.T) {
	web, term := identityOf("web"), NewTerm()
	s := &Snapshot{Pods: []Pod{podOf("p", "web")}, Identities: []Identity{web}}
	if steps := term.Plan(s, start); len(steps.Assigned) != 0 || steps.Again != Patience {
		t.Errorf("at once: %+v", steps)
	}
	if steps := term.Plan(s, start.Add(Patience)); steps.Assigned["p"] != web.Number {
		t.Errorf("after the patience: %+v", steps)
	}
	s.Reported = map[uint32]bool{web.Number: true}
	if steps := NewTerm().Plan(s, start); steps.Assigned["p"] != web.Number {
		t.Errorf("reported: %+v", steps)
	}
}

func TestPlan_ManySets_LimitAndLongLabelsRefused(t *testing.T) {
	s := &Snapshot{Pods: []Pod{podOf("p", "web")}, Settled: true}
	for i := range MaxIdentities {
		s.Identities = append(s.Identities, Identity{UID: fmt.Sprint(i), Number: uint32(identity.First + i), Set: setOf(fmt.Sprint("x", i))})
	}
	if steps := NewTerm().Plan(s, start); len(steps.Create) != 0 || !errors.Is(steps.Waiting["p"], ErrFull) {
		t.Errorf("a full VPC: %v, %v", said(steps), steps.Waiting)
	}
	many := podOf("p", "web")
	for i := range identity.MaxLabels {
		many.Identity.Labels[fmt.Sprint("k", i)] = ""
	}
	if steps := NewTerm().Plan(&Snapshot{Pods: []Pod{many}, Settled: true}, start); len(steps.Create) != 0 || steps.Waiting["p"] == nil {
		t.Errorf("too many labels: %v, %v", said(steps), steps.Waiting)
	}
}

func TestPlan_NumbersAllTaken_PodWaits(t *testing.T) {
	s := &Snapshot{Pods: []Pod{podOf("p", "web")}, Settled: true, Taken: map[uint32]bool{}}
	for i := range attempts {
		s.Taken[numberOf("web", i)] = true
	}
	if steps := NewTerm().Plan(s, start); len(steps.Create) != 0 || !errors.Is(steps.Waiting["p"], ErrConflict) {
		t.Errorf("%v, %v", said(steps), steps.Waiting)
	}
}

// TestPlan_UnusedIdentity_DeletedThenRests follows an identity from its last Address to the end.
func TestPlan_UnusedIdentity_DeletedThenRests(t *testing.T) {
	web, term := identityOf("web"), NewTerm()
	number := fmt.Sprint(web.Number)
	s := &Snapshot{Identities: []Identity{web}, Addresses: []Address{addressOf("v4", "gone", web.Number)}}
	expect := func(after time.Duration, again time.Duration, want ...string) {
		t.Helper()
		steps := term.Plan(s, start.Add(after))
		if got := said(steps); !slices.Equal(got, want) || steps.Again != again {
			t.Errorf("after %s: %v, again in %s; want %v in %s", after, got, steps.Again, want, again)
		}
	}
	expect(0, 0)
	expect(Life, 0) // the Address of an ended pod
	s.Addresses = nil
	expect(Life+time.Minute, Life-time.Minute)
	expect(2*Life, 0, "delete "+number)
	s.Identities[0].Deleting = true
	expect(2*Life, 0, "rest of-web")
	s.Covered = map[string]bool{"of-web": true}
	expect(2*Life, 0, "release "+number)
	s.Addresses = []Address{addressOf("late", "gone", web.Number)}
	expect(2*Life+time.Minute, 0) // a request arrived late
	term = NewTerm()
	s.Addresses = nil
	expect(3*Life, Life) // another term waits as long again
}

func TestPlan_DeletedPolicy_AddressKept(t *testing.T) {
	web := identityOf("web")
	pod := podOf("p", "web")
	pod.Selected = func(string) bool { return false }
	s := &Snapshot{Pods: []Pod{pod}, Identities: []Identity{web}, Addresses: []Address{addressOf("v4", "p", web.Number)}, Settled: true}
	term := NewTerm()
	for _, after := range []time.Duration{0, Patience, 2 * Life} {
		if got := said(term.Plan(s, start.Add(after))); len(got) != 0 {
			t.Errorf("after %s: %v", after, got)
		}
	}
}

// TestPlan_NumberHandedOut_LifeBeginsAgain: the write to the Address may be on its way.
func TestPlan_NumberHandedOut_LifeBeginsAgain(t *testing.T) {
	web, term := identityOf("web"), NewTerm()
	unused := &Snapshot{Identities: []Identity{web}}
	used := &Snapshot{Identities: []Identity{web}, Pods: []Pod{podOf("p", "web")}}
	term.Plan(unused, start)
	if steps := term.Plan(used, start.Add(Life-time.Minute)); steps.Assigned["p"] != web.Number {
		t.Fatalf("the pod gets %+v", steps)
	}
	for _, after := range []time.Duration{Life, 2*Life - 2*time.Minute} {
		if got := said(term.Plan(unused, start.Add(after))); len(got) != 0 {
			t.Errorf("after %s: %v", after, got)
		}
	}
	if got := said(term.Plan(unused, start.Add(2*Life))); len(got) != 1 {
		t.Errorf("in the end: %v", got)
	}
}

// TestAssign_NewAddress_CountsAsUse: the Address may exist before the next plan knows it.
func TestAssign_NewAddress_CountsAsUse(t *testing.T) {
	term, web, pod := NewTerm(), identityOf("web"), podOf("p", "web")
	s := &Snapshot{Identities: []Identity{web}, Settled: true}
	term.Plan(s, start)
	if got := term.Assign(&pod, start); got != 0 {
		t.Errorf("assigned %d before the nodes can know it", got)
	}
	term.Plan(s, start.Add(Patience))
	other := podOf("q", "db")
	if got := term.Assign(&pod, start.Add(Life-time.Second)); got != web.Number {
		t.Errorf("assigned %d, want %d", got, web.Number)
	}
	if got := term.Assign(&other, start.Add(Life)); got != 0 {
		t.Errorf("labels without identity are assigned %d", got)
	}
	if steps := term.Plan(s, start.Add(Life)); len(steps.Delete) > 0 {
		t.Error("an identity is deleted right after its use")
	}
	if steps := term.Plan(s, start.Add(2*Life)); len(steps.Delete) != 1 {
		t.Error("an unused identity is not deleted")
	}
	if got := term.Assign(&pod, start.Add(2*Life)); got != 0 {
		t.Errorf("assigned %d although it is being deleted", got)
	}
}
