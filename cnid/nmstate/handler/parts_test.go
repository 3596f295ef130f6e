// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// divide sets a desired state with parts.
func (w *world) divide(text string, parts ...string) {
	w.change(func() {
		w.object.Spec.Parts = nil
		for _, paths := range parts {
			w.object.Spec.Parts = append(w.object.Spec.Parts, v1beta1.Part{Paths: strings.Fields(paths)})
		}
		w.ask(text)
	})
}

const both = `{"interfaces":[{"name":"eth0","mtu":1400},{"name":"eth1","mtu":9000}]}`

func TestHandlerParts_OneFails_OthersApplied(t *testing.T) {
	cause := errors.New("the device is broken")
	for name, broken := range map[string]func(w *world){
		"it fails":      func(w *world) { w.broken = map[string]error{"eth0": cause} },
		"it is refused": func(w *world) { w.unknown = map[string]error{"eth0": cause} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			broken(w)
			run(t, w, func(t *testing.T) {
				w.divide(both, "interfaces[eth0]", "interfaces[eth1]")
				status := w.status(t)
				showsMTU(t, status, "eth1", 9000)
				reason := map[bool]string{true: nmstatev1.RefusedReason, false: nmstatev1.FailedToConfigureReason}[w.unknown != nil]
				failing := has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, reason)
				if !strings.Contains(failing.Message, "interfaces[eth0]: ") || !strings.Contains(failing.Message, cause.Error()) {
					t.Errorf("the message is %q", failing.Message)
				}
				if len(status.Failures) != 1 || status.Failures[0].Path != "interfaces[eth0]" || !strings.Contains(status.Failures[0].Message, cause.Error()) {
					t.Errorf("the failures are %+v", status.Failures)
				}
				if status.ObservedDesiredGeneration != w.object.Generation {
					t.Errorf("observed generation %d of %d", status.ObservedDesiredGeneration, w.object.Generation)
				}
				w.change(func() { w.mtus["eth1"] = 1300 }) // the other part is still enforced
				showsMTU(t, w.status(t), "eth1", 9000)
				w.change(func() { w.broken, w.unknown = nil, nil })
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				synctest.Wait()
				status = w.status(t)
				showsMTU(t, status, "eth0", 1400)
				if has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason); len(status.Failures) > 0 {
					t.Errorf("the failures are %+v", status.Failures)
				}
			})
		})
	}
}

// TestHandlerParts_LostByNode_Reported by its path once, and no longer after the repair.
func TestHandlerParts_LostByNode_Reported(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.divide(both, "interfaces[eth0]", "interfaces[eth1]")
		if failures := w.status(t).Failures; len(failures) > 0 {
			t.Fatalf("the failures are %+v", failures)
		}
		w.change(func() {
			w.writes, w.unknown = nil, map[string]error{"eth0": errors.New("there is no eth0")}
			delete(w.mtus, "eth0")
		})
		time.Sleep(30 * time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		status := w.status(t)
		if len(status.Failures) != 1 || status.Failures[0].Path != "interfaces[eth0]" || len(w.writes) != 1 {
			t.Errorf("after %d reports the failures are %+v", len(w.writes), status.Failures)
		}
		showsMTU(t, status, "eth1", 9000)
		w.change(func() { w.unknown, w.mtus["eth0"] = nil, 1500 })
		status = w.status(t)
		showsMTU(t, status, "eth0", 1400)
		if has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason); len(status.Failures) > 0 {
			t.Errorf("after the repair the failures are %+v", status.Failures)
		}
	})
}

// TestHandlerParts_NeedsLaterPart_Applied: it is tried again in the same pass, so no failure is
// reported.
func TestHandlerParts_NeedsLaterPart_Applied(t *testing.T) {
	w := newWorld()
	w.mtus["eth1.5"] = 1500
	w.unknown = map[string]error{"eth1.5": errors.New("there is no eth1")}
	run(t, w, func(t *testing.T) {
		w.change(func() { w.writes = nil })
		w.divide(`{"interfaces":[{"name":"eth1","mtu":9000},{"name":"eth1.5","mtu":9000}]}`, "interfaces[eth1.5]", "interfaces[eth1]")
		status := w.status(t)
		showsMTU(t, status, "eth1.5", 9000)
		has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
		if len(w.writes) != 1 {
			t.Errorf("there are %d reports", len(w.writes))
		}
	})
}

// TestHandlerParts_RestOutsideParts_Enforced: somebody has set it by hand since the parts were written.
func TestHandlerParts_RestOutsideParts_Enforced(t *testing.T) {
	w := newWorld()
	w.broken = map[string]error{"eth1": errors.New("it is broken")}
	run(t, w, func(t *testing.T) {
		w.divide(both, "interfaces[eth1]", "interfaces[eth7]")
		showsMTU(t, w.status(t), "eth0", 1400)
		if failures := w.status(t).Failures; len(failures) != 1 || failures[0].Path != "interfaces[eth1]" {
			t.Errorf("the failures are %+v", failures)
		}
		w.divide(both) // a policy handler of an earlier version
		if failures := w.status(t).Failures; len(failures) != 1 || failures[0].Path != "" {
			t.Errorf("without parts, the failures are %+v", failures)
		}
	})
}

// TestHandlerParts_Target_CountsForItsPart: an unreachable target of one part does not keep the other parts
// from the node. A policy handler of an earlier version has no targets of parts, and then the
// targets of all policies count for each part.
func TestHandlerParts_Target_CountsForItsPart(t *testing.T) {
	w := newWorld()
	w.dead = map[string]bool{"b:1": true}
	run(t, w, func(t *testing.T) {
		set := func(text string, reach ...[]string) {
			w.change(func() {
				w.object.Spec.Reach, w.object.Spec.PolicyReach = []nmstatev1.ReachTarget{"hand"}, []nmstatev1.ReachTarget{"a", "b:1"}
				w.object.Spec.Parts = []v1beta1.Part{{Paths: []string{"interfaces[eth0]"}}, {Paths: []string{"interfaces[eth1]"}}}
				for n, targets := range reach {
					w.object.Spec.Parts[n].Reach = targets
				}
				w.ask(text)
			})
		}
		set(both, []string{"b:1"}, []string{"a"})
		status := w.status(t)
		showsMTU(t, status, "eth0", 1500)
		showsMTU(t, status, "eth1", 9000)
		if len(status.Failures) != 1 || status.Failures[0].Path != "interfaces[eth0]" || !strings.Contains(status.Failures[0].Message, "b:1") {
			t.Errorf("the failures are %+v", status.Failures)
		}
		set(strings.Replace(both, "9000", "8000", 1), []string{"b:1"}, []string{"a"})
		if showsMTU(t, w.status(t), "eth1", 8000); fmt.Sprint(w.asked, w.kept) != "[hand a] [b:1]" {
			t.Errorf("asked is %v, and of other parts %v", w.asked, w.kept)
		}
		set(strings.Replace(both, "9000", "7000", 1))
		if showsMTU(t, w.status(t), "eth1", 8000); fmt.Sprint(w.asked, w.kept) != "[hand a b:1] []" {
			t.Errorf("without targets of parts, asked is %v, and of other parts %v", w.asked, w.kept)
		}
		set(strings.Replace(both, "9000", "6000", 1), []string{"b:1"}, []string{"0.0.0.0"})
		status = w.status(t)
		if failing := has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.FailedToConfigureReason); !strings.Contains(
			failing.Message,
			"spec.parts.reach[0]: 0.0.0.0",
		) {
			t.Errorf("the message is %q", failing.Message)
		}
	})
}

// TestHandlerParts_KernelChange_OneByOne: one is refused by the kernel's rules, and the other one is
// there.
func TestHandlerParts_KernelChange_OneByOne(t *testing.T) {
	space := netnstest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	w := newWorld()
	cfg := w.config()
	space.Do(t, func() error {
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1", MTU: 1500}, PeerName: "eth2", PeerMTU: 1500})
		if err != nil {
			return err
		}
		cfg.Engine, err = openEngine(t)
		return err
	})
	defer w.runIn(ctx, t, space, cfg)()
	w.await(ctx, t, "the object is made", func() bool { return w.object != nil && w.object.Status.CurrentState != nil })
	w.mu.Lock()
	w.object.Spec.Parts = []v1beta1.Part{{Paths: []string{"interfaces[eth666]"}}, {Paths: []string{"interfaces[eth1]"}}}
	w.ask(`{"interfaces":[{"name":"eth666","type":"ethernet","state":"up"},{"name":"eth1","type":"veth","mtu":1400,"veth":{"peer":"eth2"}}]}`)
	w.mu.Unlock()
	w.await(ctx, t, "both parts are tried", func() bool { return w.object.Status.ObservedDesiredGeneration == w.object.Generation })
	if mtu := mtuOf(t, space, "eth1"); mtu != 1400 {
		t.Errorf("eth1 has MTU %d", mtu)
	}
	status := w.status(t)
	paths := []string{}
	for _, failure := range status.Failures {
		paths = append(paths, failure.Path)
	}
	if diff := cmp.Diff([]string{"interfaces[eth666]"}, paths); diff != "" {
		t.Errorf("the failures (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type == nmstatev1.FailingCondition && strings.Contains(c.Message, "eth666")
	}) {
		t.Errorf("the conditions are %+v", status.Conditions)
	}
}

// TestHandlerParts_RestoreFails_Reported by a condition as long as it is so, and to people once.
func TestHandlerParts_RestoreFails_Reported(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		for reason, givenUp := range map[string]bool{nmstatev1.IncompleteReason: false, nmstatev1.GivenUpReason: true} {
			w.change(func() { w.warnings = nil })
			w.change(func() { w.lostChange = &transaction.Unrestored{GivenUp: givenUp, Message: "eth1 is gone"} })
			w.change(func() { w.mtus["eth0"]++ })
			if got := has(t, w.status(t), nmstatev1.NotRestoredCondition, metav1.ConditionTrue, reason); got.Message != "eth1 is gone" {
				t.Errorf("the message is %q", got.Message)
			}
			if len(w.warnings) != 1 {
				t.Errorf("people were told %q", w.warnings)
			}
		}
		w.change(func() { w.lostChange = nil })
		has(t, w.status(t), nmstatev1.NotRestoredCondition, "", "")
	})
}
