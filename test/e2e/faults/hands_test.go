// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// deviceOf returns the host end of a pod's interface.
func (e *env) deviceOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	dump, err := e.Dump(stage.Within(t, patience), pod.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range dump.Attachments {
		if rec.Pod.UID == string(pod.UID) {
			return rec.HostIfName
		}
	}
	t.Fatalf("%s has no attachment of pod %s", pod.Spec.NodeName, pod.Name)
	return ""
}

// damage is a change of a node by hand. named lists the parts of the repair events that name the
// damaged object.
type damage struct {
	command []string
	named   []string
}

// damages lists the changes to a node and to the device of a pod there, one after the
// other: the loss of the tunnel device makes the daemon open the whole datapath
// anew, which would repair the others in passing.
func damages(device string) []damage {
	pin := func(name string) string { return filepath.Join(programs.DefaultPinDir, name) }
	return []damage{
		{[]string{"ip", "link", "set", "dev", device, "down"}, []string{device + ", which was down"}},
		{[]string{"tc", "qdisc", "del", "dev", device, "clsact"}, []string{"program from_pod on device", "program to_pod on device"}},
		{[]string{"rm", "-r", pin("alioth_addresses"), pin("links")}, []string{"pin of map alioth_addresses", "link connect4"}},
		{[]string{"nft", "delete", "table", "inet", "alioth"}, []string{"table inet alioth"}},
		{[]string{"ip", "link", "del", "dev", hostdev.Tunnel}, []string{"device " + hostdev.Tunnel}},
	}
}

func TestNodeState_DeletedByHand_Repaired(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("hands"))
	near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second), probed())
	e.Run(t, near, far)
	for _, damage := range damages(e.deviceOf(t, far)) {
		began := time.Now()
		e.OnNode(t, second, damage.command...)
		for _, named := range damage.named {
			e.expectEvent(t, metav1.NamespaceDefault, second, v1alpha1.RepairedReason, named, began)
		}
	}
	e.ExpectAgreement(t)
	e.expectReach(t, near, far)
	e.expectReach(t, far, near)
	e.expectUnharmed(t, near, far)
}

// expectEvent waits until an object has an event since a moment, with a reason and with
// named in its note.
func (e *env) expectEvent(t *testing.T, namespace, object, reason, named string, since time.Time) {
	t.Helper()
	what := fmt.Sprintf("the event %s of %s that names %q", reason, object, named)
	e.waits(t, what, func(ctx context.Context) (bool, string, error) {
		list, err := e.Lab.Client().EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		var notes []string
		for _, event := range list.Items {
			if event.Regarding.Name != object || event.Reason != reason || lastTime(&event).Before(since) {
				continue
			}
			if strings.Contains(event.Note, named) {
				return true, "", nil
			}
			notes = append(notes, event.Note)
		}
		return false, strings.Join(notes, "; "), nil
	})
}

// lastTime is when an event was last seen.
func lastTime(event *eventsv1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	return event.EventTime.Time
}

func TestPodDevice_DeletedByHand_Restored(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("device"))
	near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second))
	e.Run(t, near, far)
	began, before := time.Now(), addressesOf([]*corev1.Pod{far})
	e.OnNode(t, second, "ip", "link", "del", "dev", e.deviceOf(t, far))
	e.expectEvent(t, far.Namespace, far.Name, v1alpha1.InterfaceRestoredReason, "was restored", began)
	e.expectReach(t, near, far)
	e.expectReach(t, far, near)
	e.expectUnharmed(t, far)
	expectAddresses(t, []*corev1.Pod{far}, before)

	e.OnNode(t, second, "ip", "link", "del", "dev", e.deviceOf(t, far))
	if err := e.Delete(stage.Within(t, patience), far); err != nil {
		t.Fatal(err)
	}
	again := tenant.Pod("far", scene.OnNode(second))
	e.Run(t, again)
	e.expectReach(t, near, again)
}
