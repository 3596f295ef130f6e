// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
)

const jumbo = `{"interfaces":[{"name":"eth1","mtu":9000}]}`

func TestHandler_NewNode_ObjectWithCurrentStateOnly(t *testing.T) {
	w := newWorld()
	w.row = Wanted{NodeUID: "node-uid"}
	run(t, w, func(t *testing.T) {
		status := w.status(t)
		showsMTU(t, status, "eth1", 1500)
		has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
		has(t, status, nmstatev1.FailingCondition, metav1.ConditionFalse, nmstatev1.SuccessfullyConfiguredReason)
		has(t, status, nmstatev1.ForeignCondition, "", "")
		if w.object.Spec.DesiredState != nil || len(w.tries) > 0 {
			t.Errorf("the object has the desired state %v, and the node was changed %d times", w.object.Spec.DesiredState, len(w.tries))
		}
		if owners := w.object.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Node" || owners[0].UID != "node-uid" {
			t.Errorf("the object goes with %+v, want the node", owners)
		}
		if status.HandlerNmstateVersion != v1beta1.HandlerVersion || status.ObservedDesiredGeneration != 1 || status.LastSuccessfulUpdateTime == nil {
			t.Errorf("status %+v", status)
		}
	})
}

func TestHandler_ObjectDeleted_RecreatedWithoutDesiredState(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		before := w.object.UID
		w.change(func() {
			w.object = nil
			w.follow()
		})
		status := w.status(t)
		showsMTU(t, status, "eth1", 9000)
		if w.object.UID == before || w.object.Spec.DesiredState != nil || status.DesiredStateHash != "" {
			t.Errorf("the object is %+v, want a new one without a desired state", w.object)
		}
		w.change(func() { w.mtus["eth1"] = 1400 })
		if showsMTU(t, w.status(t), "eth1", 1400); len(w.tries) != 1 {
			t.Errorf("the node was changed %d times, want once: the desired state is gone", len(w.tries))
		}
	})
}

// TestHandler_UnseenObject_NotJudged: what the handler follows has its
// predecessor.
func TestHandler_UnseenObject_NotJudged(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		w.change(func() {
			w.object.Status = v1beta1.NodeNetworkStateStatus{}
			w.object.UID, w.behind = "successor", true
			w.mtus["eth0"] = 1400
		})
		status := w.status(t)
		showsMTU(t, status, "eth0", 1400)
		if status.ObservedDesiredGeneration != 0 || status.DesiredStateHash != "" || len(status.Conditions) > 0 {
			t.Errorf("the status has a verdict: %+v", status)
		}
	})
}

func TestHandler_State_ChangesReportedElseHourly(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		begin := time.Now()
		w.change(func() { w.writes = nil })
		time.Sleep(59 * time.Minute) //nolint:forbidigo // virtual time
		if len(w.writes) > 0 {
			t.Errorf("without a change there are reports at %v", w.writes)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		status := w.status(t)
		if len(w.writes) != 1 || !status.LastSuccessfulUpdateTime.Equal(&metav1.Time{Time: begin.Add(time.Hour)}) {
			t.Errorf("after an hour there are reports at %v, the last one read at %v", w.writes, status.LastSuccessfulUpdateTime)
		}
		w.change(func() { w.mtus["eth0"] = 1400 })
		showsMTU(t, w.status(t), "eth0", 1400)
		w.mu.Lock()
		w.mtus["eth0"] = 1300 // Nobody tells of it.
		w.mu.Unlock()
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		showsMTU(t, w.status(t), "eth0", 1300)
		if len(w.writes) != 3 {
			t.Errorf("reports at %v, want one for each change", w.writes)
		}
	})
}

func TestHandler_DesiredState_Enforced(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		status := w.status(t)
		showsMTU(t, status, "eth1", 9000)
		has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(`{"interfaces":[{"mtu":9000,"name":"eth1"}]}`)))
		if status.ObservedDesiredGeneration != w.object.Generation || status.DesiredStateHash != hash {
			t.Errorf("observed generation %d of %d, hash %q", status.ObservedDesiredGeneration, w.object.Generation, status.DesiredStateHash)
		}
		w.desire(`{"interfaces": [{"mtu": 9000, "name": "eth1"}]}`)
		again := w.status(t)
		if again.DesiredStateHash != status.DesiredStateHash || again.ObservedDesiredGeneration != w.object.Generation || len(w.tries) != 1 {
			t.Errorf(
				"the same state in other words is hash %q and generation %d, and was enforced %d times",
				again.DesiredStateHash,
				again.ObservedDesiredGeneration,
				len(w.tries),
			)
		}
	})
}

func TestHandler_Drift_Enforced(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		for n := range 3 {
			w.change(func() { w.mtus["eth1"] = 1500 })
			if showsMTU(t, w.status(t), "eth1", 9000); len(w.tries) != n+2 {
				t.Errorf("after drift %d the node was changed %d times", n+1, len(w.tries))
			}
		}
	})
}

// TestHandler_DriftBeforeReading_Enforced: the first look after a change has the drift.
func TestHandler_DriftBeforeReading_Enforced(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.drift = func() { w.mtus["eth1"] = 1400 }
		w.desire(jumbo)
		showsMTU(t, w.status(t), "eth1", 9000)
		if len(w.tries) < 2 {
			t.Errorf("the node was changed %d times", len(w.tries))
		}
	})
}

func TestHandler_NewDesiredState_TriedAtOnce(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.fails = errors.New("it does not work")
		w.desire(jumbo)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		begin := time.Now()
		w.desire(`{"interfaces":[{"name":"eth1","mtu":8000}]}`)
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		if last := w.tries[len(w.tries)-2:]; !last[0].Equal(begin) || !last[1].Equal(begin.Add(time.Second)) {
			t.Errorf("attempts at %v, want some at %v and a second later", w.tries, begin)
		}
	})
}

// TestHandler_RequiredTargets_ProbedAtOnce: people and policies name it.
func TestHandler_RequiredTargets_ProbedAtOnce(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.fails = errors.New("it does not work")
		w.desire(jumbo)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		begin := time.Now()
		reach := func(hand, policies nmstatev1.ReachTarget) {
			w.change(func() {
				w.object.Spec.Reach, w.object.Spec.PolicyReach = []nmstatev1.ReachTarget{hand}, []nmstatev1.ReachTarget{policies}
				w.object.Generation++
				w.follow()
			})
		}
		reach("a", "b:1")
		if last := w.tries[len(w.tries)-1]; !last.Equal(begin) || fmt.Sprint(w.asked) != "[a b:1]" {
			t.Errorf("the last attempt was at %v and asked %v, want %v", last, w.asked, begin)
		}
		tries := len(w.tries)
		reach("a", "0.0.0.0")
		status := w.status(t)
		if has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.RefusedReason); !strings.Contains(
			status.Refused,
			"spec.policyReach[0]: 0.0.0.0",
		) ||
			len(w.tries) > tries {
			t.Errorf("it was changed, or refused as %q", status.Refused)
		}
	})
}

func TestHandler_Refusal_PathNamed(t *testing.T) {
	for text, path := range map[string]string{
		`{"interfaces":[{"name":"eth1","no-such-field":1}]}`:                                                  "interfaces[0].no-such-field",
		`{"interfaces":[{"name":"eth1","mtu":"big"}]}`:                                                        "mtu",
		`{"routes":{"config":[{"next-hop-interface":"{{ capture.nic.interfaces.0.name }}"}]}}`:                "routes.config[0].next-hop-interface",
		`{"interfaces":[{"name":"eth1","mtu":"{{ capture.nic.interfaces.0.mtu }}"}]}`:                         "interfaces[0].mtu",
		`{"interfaces":[{"name":"` + strings.Repeat("ä", 1000) + `","` + strings.Repeat("x", 1200) + `":1}]}`: "unknown field",
	} {
		w := newWorld()
		run(t, w, func(t *testing.T) {
			w.desire(text)
			status := w.status(t)
			has(t, status, nmstatev1.AvailableCondition, metav1.ConditionFalse, nmstatev1.RefusedReason)
			failing := has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.RefusedReason)
			if !strings.Contains(failing.Message, path) || !strings.Contains(status.Refused, path) || len(status.Refused) > v1beta1.MaxRefused {
				t.Errorf("%s: refused is %q, and the message %q", text, status.Refused, failing.Message)
			}
			if status.ObservedDesiredGeneration != w.object.Generation || len(w.tries) > 0 {
				t.Errorf("%s: observed generation %d, %d attempts", text, status.ObservedDesiredGeneration, len(w.tries))
			}
			w.desire(jumbo)
			if status = w.status(t); status.Refused != "" {
				t.Errorf("%s: refused stays %q", text, status.Refused)
			}
		})
	}
}

func TestHandler_RefusedAndNodeChanged_TriedAgain(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		begin := time.Now()
		w.refuses = errors.New("interfaces[0].vlan.base-iface: eth2: there is no such interface")
		w.desire(jumbo)
		has(t, w.status(t), nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.RefusedReason)
		time.Sleep(59 * time.Second) //nolint:forbidigo // virtual time
		if len(w.plans) != 1 {
			t.Errorf("without a change it was tried %d times within a minute", len(w.plans))
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		if len(w.plans) != 2 || !w.plans[1].Equal(begin.Add(time.Minute)) {
			t.Errorf("tried at %v, want %v too", w.plans, begin.Add(time.Minute))
		}
		w.change(func() {
			w.mtus["eth2"] = 1500
			w.refuses = nil
		})
		showsMTU(t, w.status(t), "eth1", 9000)
		has(t, w.status(t), nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
	})
}

func TestHandler_NodeUnmanaged_LeftAlone(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		w.change(func() {
			w.object.Spec.Managed = new(false)
			w.object.Generation++
			w.follow()
		})
		observed := w.status(t).ObservedDesiredGeneration
		w.change(func() {
			w.writes = nil
			w.mtus["eth1"] = 1500
		})
		time.Sleep(3 * time.Hour) //nolint:forbidigo // virtual time
		status := w.status(t)
		has(t, status, nmstatev1.AvailableCondition, metav1.ConditionFalse, nmstatev1.UnmanagedReason)
		has(t, status, nmstatev1.FailingCondition, "", "")
		if showsMTU(t, status, "eth1", 9000); len(w.tries) != 1 || len(w.writes) > 0 || status.ObservedDesiredGeneration != observed {
			t.Errorf("the node was changed %d times, with reports at %v", len(w.tries), w.writes)
		}
		w.change(func() {
			w.object.Spec.Managed = new(true)
			w.object.Generation++
			w.follow()
		})
		has(t, w.status(t), nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
		if len(w.tries) != 2 {
			t.Errorf("the node was changed %d times, want twice", len(w.tries))
		}
	})
}

func TestHandler_ForeignManagedInterfaces_LeftOut(t *testing.T) {
	w := newWorld()
	w.managers = map[string]string{"eth0": "NetworkManager", "eth3": "systemd-networkd"}
	run(t, w, func(t *testing.T) {
		w.desire(`{"interfaces":[{"name":"eth0","mtu":9000},{"name":"eth1","mtu":9000},{"name":"eth3","state":"ignore"}],
			"routes":{"config":[{"destination":"192.0.2.0/24","next-hop-interface":"eth0"}]}}`)
		status := w.status(t)
		showsMTU(t, status, "eth0", 1500)
		showsMTU(t, status, "eth1", 9000)
		has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
		if got := has(t, status, nmstatev1.ForeignCondition, metav1.ConditionTrue, nmstatev1.NetworkManagerReason); !strings.Contains(got.Message, "eth0") ||
			strings.Contains(got.Message, "eth3") {
			t.Errorf("message %q", got.Message)
		}
		w.change(func() { w.managers = map[string]string{"eth1": "systemd-networkd"} })
		status = w.status(t)
		showsMTU(t, status, "eth0", 9000)
		has(t, status, nmstatev1.ForeignCondition, metav1.ConditionTrue, nmstatev1.NetworkdReason)
		w.change(func() { w.managers = nil })
		has(t, w.status(t), nmstatev1.ForeignCondition, "", "")
	})
}

func TestHandler_ForeignStatusFields_Kept(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		since := has(t, w.status(t), nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason).LastTransitionTime
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		conflict := metav1.Condition{
			Type:               nmstatev1.ConflictCondition,
			Status:             metav1.ConditionTrue,
			Reason:             nmstatev1.OverruledReason,
			LastTransitionTime: metav1.Now(),
		}
		w.overtake = func() { // between the handler's reading and writing
			w.mu.Lock()
			defer w.mu.Unlock()
			w.object.Status.Owners = []v1beta1.Owner{{Path: "interfaces[eth1]", Owner: v1beta1.ManualOwner}}
			w.object.Status.Conditions = append(w.object.Status.Conditions, conflict)
			w.follow()
		}
		w.change(func() { w.mtus["eth0"] = 1400 })
		status := w.status(t)
		showsMTU(t, status, "eth0", 1400)
		has(t, status, nmstatev1.ConflictCondition, metav1.ConditionTrue, nmstatev1.OverruledReason)
		now := has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason).LastTransitionTime
		if len(status.Owners) != 1 || !now.Equal(&since) {
			t.Errorf("owners %v, available since %s, before %s", status.Owners, now, since)
		}
	})
}

func TestHandler_APIServer_HostAndPortProbed(t *testing.T) {
	for server, want := range map[string]string{
		"https://192.0.2.1:6443": "192.0.2.1:6443", "https://api.example": "api.example:443", "http://localhost": "localhost:80",
		"https://[2001:db8::1]:6443/path": "[2001:db8::1]:6443", "192.0.2.1:6443": "192.0.2.1:6443", "": "",
	} {
		if got := APIServer(server).String(); got != want {
			t.Errorf("%q is reached at %q, want %q", server, got, want)
		}
	}
}
