// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/store"
)

// TestAttachment_DELNeverComes_Released: of five pods whose clients named no namespace,
// only the attachments whose pod and container are both gone are released.
func TestAttachment_DELNeverComes_Released(t *testing.T) {
	n := newNode(t)
	for container, pod := range map[string]string{"c1": "p1", "c2": "p2", "c3": "p3", "c4": "p4", "c5": "p5"} {
		if _, err := n.Request(t.Context(), request(container, pod)); err != nil {
			t.Fatal(err)
		}
	}
	lists, fails := 0, error(nil)
	running := func() (func(pod, container string) bool, error) {
		lists++
		return func(pod, container string) bool { return container == "c2" || pod == "uid-p5" }, fails
	}
	left := func(want ...string) {
		t.Helper()
		if err := n.ReleaseAbandoned(t.Context(), running); err != nil {
			t.Error(err)
		}
		var containers []string
		for _, rec := range n.journal.Records() {
			containers = append(containers, rec.ContainerID)
		}
		if slices.Sort(containers); !slices.Equal(containers, want) {
			t.Errorf("%v are left, want %v", containers, want)
		}
	}
	left("c1", "c2", "c3", "c4", "c5") // their pods live; all but c2 are about to start
	if lists > 0 {
		t.Error("containers were listed although every pod lives")
	}
	if err := n.store.Update(func(tx store.Tx) error {
		store.DeletePod(tx, "uid-p1")
		store.DeletePod(tx, "uid-p2")
		store.DeletePod(tx, "uid-p5")
		return store.PutPod(tx, &store.Pod{Meta: testrows.Meta("uid-p3"), Namespace: "a", Name: "p3", Node: "node1", Terminal: true})
	}); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("no cgroup of pods")
	if err := n.ReleaseAbandoned(t.Context(), running); !errors.Is(err, fails) || len(n.journal.Records()) != 5 {
		t.Errorf("%v, %d are left although it is unknown which containers run", err, len(n.journal.Records()))
	}
	fails = nil
	left("c2", "c4", "c5") // c2 and p5 were deleted by force, and still run
	if n.control.released != 2 {
		t.Errorf("%d attachments had their addresses released, want 2", n.control.released)
	}
}

// TestStaticPod_EitherUID_SameAttachment: runtimes have the UID that the kubelet computed, and clients
// without one mean the mirror of that name. All of them get one attachment, which stays
// while the node runs the pod, also after the end of the mirror.
func TestStaticPod_EitherUID_SameAttachment(t *testing.T) {
	n := newNode(t)
	n.control.mirrors = map[string]string{"computed": "uid-p1"}
	if err := n.store.Update(func(tx store.Tx) error {
		return store.PutPod(tx, &store.Pod{Meta: testrows.Meta("uid-p1"), Namespace: "a", Name: "p1", Node: "node1", StaticUID: "computed"})
	}); err != nil {
		t.Fatal(err)
	}
	asked := request("c1", "p1")
	for _, uid := range []string{"computed", "", "uid-p1", "computed"} {
		asked.Pod.UID = uid
		if _, err := n.Request(t.Context(), asked); err != nil {
			t.Fatalf("a request with the UID %q: %v", uid, err)
		}
	}
	records := n.journal.Records()
	if len(records) != 1 || n.control.released != 0 || records[0].Pod.UID != "uid-p1" || records[0].RuntimeUID != "computed" {
		t.Errorf("attached are %+v, and %d attachments were replaced", records, n.control.released)
	}
	asked.Pod.UID = "of the manifest before"
	var notReady *rest.NotReady
	if _, err := n.Request(t.Context(), asked); !errors.As(err, &notReady) {
		t.Errorf("a request with another UID: %v", err)
	}
	if err := n.store.Update(func(tx store.Tx) error { store.DeletePod(tx, "uid-p1"); return nil }); err != nil {
		t.Fatal(err)
	}
	running := func() (func(pod, container string) bool, error) {
		return func(pod, _ string) bool { return pod == "computed" }, nil
	}
	if err := n.ReleaseAbandoned(t.Context(), running); err != nil || len(n.journal.Records()) != 1 {
		t.Errorf("a pod that runs lost its attachment: %v", err)
	}
}
