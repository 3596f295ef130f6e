// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

func TestAnnounce_NewReason_Event(t *testing.T) {
	says := func(ready bool, reason, message string) *store.Subnet {
		row := operatortest.Subnet("s", "v", "s", 0, "10.0.0.0/24")
		row.Ready, row.Reason, row.Message = ready, reason, message
		return row
	}
	fine, unsaid := says(true, v1alpha1.ReadyReason, "fine"), says(false, "", "")
	overlap := says(false, v1alpha1.OverlapReason, "range 1")
	for _, tc := range []struct {
		name     string
		old, now any
		level    string
	}{
		{name: "nothing said yet", now: unsaid},
		{"refused at once", unsaid, overlap, corev1.EventTypeWarning},
		{"well at once", unsaid, fine, corev1.EventTypeNormal},
		{"well, and then not", fine, overlap, corev1.EventTypeWarning},
		{"well again", overlap, fine, corev1.EventTypeNormal},
		{"being deleted", fine, says(false, v1alpha1.DeletingReason, "held by 1"), corev1.EventTypeNormal},
		{name: "another text for one reason", old: overlap, now: says(false, v1alpha1.OverlapReason, "range 2")},
		{name: "a change of figures", old: fine, now: fine},
		{name: "gone", old: overlap},
		{name: "a moment on the way", now: says(false, v1alpha1.VNIPendingReason, "VNI 1")},
		{name: "a row of another kind", now: operatortest.Pod("blue", "a", "p", "", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := noticesOf(feed.Change{Old: tc.old, New: tc.now})
			if tc.level == "" {
				if len(all) > 0 {
					t.Errorf("announced: %+v", all)
				}
				return
			}
			if len(all) != 1 {
				t.Fatalf("announced: %+v, want one that is %s", all, tc.level)
			}
			n := all[0]
			row, ok := tc.now.(*store.Subnet)
			about, isSubnet := n.about.(*v1alpha1.Subnet)
			if !ok || !isSubnet || n.level != tc.level || n.reason != row.Reason || n.message != row.Message || string(about.UID) != row.UID {
				t.Errorf("announced: %+v, want %s about %+v", n, tc.level, tc.now)
			}
		})
	}
}

func TestAnnounce_KindsWithReadyCondition_All(t *testing.T) {
	vpc, network := operatortest.VPC("v", 1, nil), operatortest.Network("blue", "a", "n", "v", 0)
	vpc.Ready, vpc.Reason = false, v1alpha1.VNITakenReason
	network.Ready, network.Reason = false, v1alpha1.VPCNotFoundReason
	for _, row := range []any{vpc, network} {
		if all := noticesOf(feed.Change{New: row}); len(all) != 1 || all[0].level != corev1.EventTypeWarning {
			t.Errorf("%T: %+v", row, all)
		}
	}
}

// TestAnnounce_PolicyProgressing_NoWarning: of the conditions of a policy only Degraded is one.
func TestAnnounce_PolicyProgressing_NoWarning(t *testing.T) {
	for condition, level := range map[string]string{
		nmstatev1.DegradedCondition: corev1.EventTypeWarning, nmstatev1.ProgressingCondition: corev1.EventTypeNormal,
		nmstatev1.IgnoredCondition: corev1.EventTypeNormal, nmstatev1.AvailableCondition: corev1.EventTypeNormal,
	} {
		object := &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		object.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Because"}}
		row, err := nmstateapi.NodeNetworkConfigurationPolicy.Convert(object)
		if err != nil {
			t.Fatal(err)
		}
		if all := noticesOf(feed.Change{New: row}); len(all) != 1 || all[0].level != level {
			t.Errorf("%s is announced as %+v, want %s", condition, all, level)
		}
	}
}

func TestAnnounce_NameConflict_EventBesideReady(t *testing.T) {
	network := func(conflict string) *store.Network {
		row := operatortest.Network("blue", "a", "n", "v", 0)
		row.Ready, row.Reason, row.NameConflict = true, v1alpha1.ReadyReason, conflict
		return row
	}
	for _, tc := range []struct {
		name     string
		old, now *store.Network
		want     int
	}{
		{"it begins", network(""), network("Network b/n, which is older, has the same name"), 1},
		{"it goes on with another", network("Network b/n"), network("Network c/n"), 0},
		{"it ends", network("Network b/n"), network(""), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := noticesOf(feed.Change{Old: tc.old, New: tc.now})
			if len(all) != tc.want {
				t.Fatalf("announced: %+v, want %d", all, tc.want)
			}
			for _, n := range all {
				if n.reason != v1alpha1.NameConflictReason || n.level != corev1.EventTypeWarning || n.message != tc.now.NameConflict {
					t.Errorf("announced: %+v", n)
				}
			}
		})
	}
}

func TestRecorder_LongNote_Shortened(t *testing.T) {
	to := events.NewFakeRecorder(1)
	NewRecorder(to).Eventf(nil, nil, "Warning", "Reason", "Action", "%s is long", strings.Repeat("x", 2*v1alpha1.EventNoteLimit))
	if got := <-to.Events; len(got) > len("Warning Reason ")+v1alpha1.EventNoteLimit || !strings.HasSuffix(got, "x...") {
		t.Errorf("%d bytes were written: %q", len(got), got)
	}
}

func TestAnnounce_NetworkNotIsolated_OneEvent(t *testing.T) {
	before, now := operatortest.Network("blue", "a", "n", "v", 0), operatortest.Network("blue", "a", "n", "v", 0)
	now.NotIsolated = "namespaces without Pod Security: a"
	all := noticesOf(feed.Change{Old: before, New: now})
	if len(all) != 1 || all[0].reason != v1alpha1.PodSecurityMissingReason || all[0].level != corev1.EventTypeWarning || all[0].message != now.NotIsolated {
		t.Errorf("announced: %+v", all)
	}
	if all := noticesOf(feed.Change{Old: now, New: now}); len(all) != 0 {
		t.Errorf("announced again: %+v", all)
	}
}

// recorded is a recorder that keeps the events.
type recorded struct{ notes []string }

// Eventf implements events.EventRecorder.
func (r *recorded) Eventf(regarding, _ runtime.Object, level, reason, _, note string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf("%s %s of %T: %s", level, reason, regarding, fmt.Sprintf(note, args...)))
}

func TestAnnounce_ObjectLeftOut_EventByLeader(t *testing.T) {
	recorder, leading := &recorded{}, make(chan struct{})
	l := &leftOut{recorder: recorder, leading: leading}
	one := descriptor.NewLeftOut(vpcs.Address.Kind, descriptor.ID{Name: "blue.0.0.0.0", UID: "a"}, errors.New("IP 0.0.0.0 is not an address of one host"))
	l.add(one)
	l.add(one)
	l.add(descriptor.NewLeftOut(vpcs.VPC.Kind, descriptor.ID{Name: "blue"}, store.ErrConflict))
	if l.flush(); len(recorder.notes) > 0 {
		t.Errorf("a process that does not lead tells %q", recorder.notes)
	}
	close(leading)
	l.flush()
	l.flush()
	if len(recorder.notes) != 1 || !strings.HasPrefix(recorder.notes[0], "Warning ObjectLeftOut of *v1alpha1.Address: ") ||
		!strings.Contains(recorder.notes[0], "0.0.0.0 is not an address of one host") {
		t.Errorf("the leader tells %q", recorder.notes)
	}
}
