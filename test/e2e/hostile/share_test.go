// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// takesNoShare has the user ask for a range that would leave others no addresses, and for a device
// that is for another tenant.
func (f *forger) takesNoShare(t *testing.T) {
	giant4 := f.tenantNetwork("giant4", func(s *danmv1.NetworkSpec) { s.Options.HostDevice, s.Options.CIDR = sharedDevice, "10.0.0.0/8" })
	giant6 := f.tenantNetwork("giant6", func(s *danmv1.NetworkSpec) { s.Options.HostDevice, s.Options.Net6 = sharedDevice, "fd00::/8" })
	foreign := f.tenantNetwork("share", func(s *danmv1.NetworkSpec) { s.Options.HostDevice = "hostile2" })
	for _, tt := range []struct {
		network *danmv1.TenantNetwork
		why     string
	}{{giant4, "10.0.0.0/8 is larger than /16"}, {giant6, "fd00::/8 is larger than /64"}, {foreign, `"hostile2" is not offered to TenantNetworks; offered are: hostile0, hostile1 (`}} {
		other := danmiov1.TenantNetwork(*tt.network)
		wantDenied(t, tt.network.Name, f.editor.Client.Create(stage.Within(t, stage.Patience), tt.network), tt.why)
		wantDenied(t, tt.network.Name+", danm.io", f.editor.Client.Create(stage.Within(t, stage.Patience), &other), tt.why)
	}
}

// awaitVerdict waits until the Ready condition of a network has a reason, and returns its
// message.
func (f *forger) awaitVerdict(t *testing.T, network client.Object, status *danmv1.NetworkStatus, reason string) string {
	t.Helper()
	message := ""
	err := scene.Until(stage.Within(t, stage.Patience), network.GetName()+" to be "+reason, func(ctx context.Context) (bool, string, error) {
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		for _, condition := range status.Conditions {
			if condition.Type == v1alpha1.ReadyCondition && condition.Reason == reason {
				message = condition.Message
				return err == nil, "", err
			}
		}
		return false, fmt.Sprintf("%+v", status.Conditions), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// yieldsToAdministrators has an administrator make ClusterNetworks with the range and the
// number of networks that the user has made before.
func (f *forger) yieldsToAdministrators(t *testing.T, numbered *danmv1.TenantNetwork) {
	ranged := f.tenantNetwork("ranged", func(s *danmv1.NetworkSpec) { s.Options.HostDevice, s.Options.CIDR = sharedDevice, "10.200.0.0/16" })
	if err := f.editor.Client.Create(stage.Within(t, stage.Patience), ranged); err != nil {
		t.Fatal(err)
	}
	f.RemoveAfter(t, ranged)
	f.awaitVerdict(t, ranged, &ranged.Status, v1alpha1.NoServingNodeReason)
	for _, tt := range []struct {
		loser  *danmv1.TenantNetwork
		reason string
	}{{ranged, v1alpha1.OverlapReason}, {numbered, v1alpha1.VNITakenReason}} {
		winner := &danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("wan")}, Spec: tt.loser.Spec}
		winner.Spec.Options.HostDevice, winner.Spec.Options.VLAN = tt.loser.Status.Profile.HostDevice, tt.loser.Status.Profile.VLAN
		f.Make(t, winner)
		f.awaitVerdict(t, winner, &winner.Status, v1alpha1.NoServingNodeReason)
		if message := f.awaitVerdict(t, tt.loser, &tt.loser.Status, tt.reason); !strings.Contains(message, "ClusterNetwork "+winner.Name) {
			t.Errorf("the tenant is told %q, want the name of %s", message, winner.Name)
		}
		f.awaitWarning(t, tt.loser, tt.reason)
		pod := f.Pod("loser-"+tt.loser.Name, scene.WithInterfaces(`[{"tenantNetwork":"`+tt.loser.Name+`","ip":"dynamic"}]`))
		f.create(t, pod)
		f.RemoveAfter(t, pod) // before the winner: afterwards it would get its interface
		f.awaitRefusal(t, pod, v1alpha1.NetworkNotReadyReason, tt.loser.Name)
	}
}

// awaitWarning waits for a warning about a network.
func (f *forger) awaitWarning(t *testing.T, network client.Object, reason string) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "an event "+reason, func(ctx context.Context) (bool, string, error) {
		list := &eventsv1.EventList{}
		err := f.Client.List(ctx, list, client.InNamespace(network.GetNamespace()))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.UID == network.GetUID() && e.Reason == reason && e.Type == corev1.EventTypeWarning
		}), fmt.Sprintf("%d events", len(list.Items)), err
	})
	if err != nil {
		t.Error(err)
	}
}

// takesNotAllNumbers has the user create more networks than the device has VLANs. The victim
// gets one all the same.
func (f *forger) takesNotAllNumbers(t *testing.T) {
	onVLAN := func(s *danmv1.NetworkSpec) { s.Options.HostDevice = offeredDevice }
	var last *danmv1.TenantNetwork
	for i := range 25 {
		last = f.tenantNetwork(fmt.Sprint("taken", i), onVLAN)
		if err := f.editor.Client.Create(stage.Within(t, stage.Patience), last); err != nil {
			t.Fatal(err)
		}
		f.RemoveAfter(t, last)
	}
	if message := f.awaitVerdict(t, last, &last.Status, v1alpha1.TenantLimitReason); !strings.Contains(message, "the tenant has 16 networks, which is the limit") {
		t.Errorf("the tenant is told %q", message)
	}
	f.awaitWarning(t, last, v1alpha1.TenantLimitReason)
	theirs := f.tenantNetwork("theirs", onVLAN)
	theirs.Namespace = f.victim.Namespace.Name
	f.Make(t, theirs)
	f.awaitVerdict(t, theirs, &theirs.Status, v1alpha1.NoServingNodeReason)
	if p := theirs.Status.Profile; p == nil || p.VLAN == 0 {
		t.Errorf("the victim's network has no VLAN: %+v", p)
	}
}
