// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

const (
	// pool has functions with a network device. vfioPool has a function that a program in a pod
	// drives.
	pool, vfioPool = "alioth.test/hw", "alioth.test/vfio"
	// tag is the VLAN of a network on functions.
	tag = 300
)

// sriovScene are the pods of the test, and the functions in the order of their numbers.
type sriovScene struct {
	*env
	addresses []string
	before    []function
	// both has interfaces in the networks plain and tagged, beside in tagged alone. user
	// has a function without a network device, and wired is on the other node, on the segment
	// of the adapter.
	both, beside, user, wired *corev1.Pod
}

// The kubelet alone decides which functions a pod gets. One has packets without a tag, and reaches
// the other node; two are in a VLAN; a fourth is for a program in its pod. The daemon is killed
// before it has removed any, and each is in the end as it was before.
func TestVirtualFunctions_KubeletAllocates_UsedAndRestored(t *testing.T) {
	s := &sriovScene{env: start(t)}
	s.addresses = s.functions(t, 4)
	s.bind(t, s.addresses[3], "vfio-pci")
	s.before = s.states(t)
	s.offerDevices(t, map[string][]string{pool: s.addresses[:3], vfioPool: s.addresses[3:]})
	tenant := s.Tenant(t, stage.Overlapping("functions"))
	s.makeNetworks(t, tenant)
	s.runPods(t, tenant)

	var used []string
	for _, want := range []struct {
		pod        *corev1.Pod
		interfaces []string
	}{{s.both, []string{"plain1", "tagged2"}}, {s.beside, []string{"tagged1"}}, {s.user, []string{"user1"}}} {
		for i, status := range s.AwaitStatus(t, want.pod, len(want.interfaces)+1)[1:] {
			used = append(used, s.checkFunction(t, want.pod, want.interfaces[i], status))
		}
	}
	slices.Sort(used)
	if diff := cmp.Diff(s.addresses, used); diff != "" {
		t.Errorf("functions of pods (-want +got):\n%s", diff)
	}
	s.checkStandIn(t)
	s.checkTraffic(t)
	s.checkRefusals(t, tenant)

	if err := s.Lab.KillDaemon(stage.Within(t, stage.Patience), s.guest()); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(stage.Within(t, stage.Patience), s.both, s.beside, s.user, s.wired); err != nil {
		t.Fatal(err)
	}
	// The daemon that starts removes the settings that the pods had while no daemon ran.
	err := scene.Until(stage.Within(t, stage.Patience), "the functions to be as before", func(context.Context) (bool, string, error) {
		diff := cmp.Diff(s.before, s.states(t))
		return diff == "", "(-before +after):\n" + diff, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// states returns the states of the functions.
func (s *sriovScene) states(t *testing.T) (list []function) {
	t.Helper()
	for number, address := range s.addresses {
		list = append(list, s.stateOf(t, number, address))
	}
	return list
}

func (s *sriovScene) makeNetworks(t *testing.T, tenant *scene.Tenant) {
	t.Helper()
	plain := danmv1.NetworkOptions{DevicePool: pool, CIDR: "10.115.2.0/24", Net6: "fd10:115:2::/64"}
	wire := plain
	wire.DevicePool, wire.HostDevice = "", device
	s.network(t, tenant, "plain", "sriov", plain)
	s.network(t, tenant, "wire", "macvlan", wire)
	s.network(t, tenant, "tagged", "sriov", danmv1.NetworkOptions{DevicePool: pool, VLAN: tag, CIDR: "10.115.3.0/24", Net6: "fd10:115:3::/64"})
	s.network(t, tenant, "user", "sriov", danmv1.NetworkOptions{DevicePool: vfioPool, CIDR: "10.115.4.0/24"})
}

func (s *sriovScene) runPods(t *testing.T, tenant *scene.Tenant) {
	t.Helper()
	s.both = tenant.Pod(
		"both",
		requesting(pool, 2),
		interfaces(tenant, `{"network":"plain","ip":"10.115.2.10","ip6":"fd10:115:2::10"}`, `{"network":"tagged","ip":"10.115.3.10","ip6":"fd10:115:3::10"}`),
	)
	s.beside = tenant.Pod("beside", serves("tagged"), requesting(pool, 1), interfaces(tenant, `{"network":"tagged","ip":"10.115.3.11","ip6":"fd10:115:3::11"}`))
	s.user = tenant.Pod("user", requesting(vfioPool, 1), interfaces(tenant, `{"network":"user","ip":"10.115.4.10"}`))
	s.wired = tenant.Pod("wired", scene.OnNode(s.usual()), interfaces(tenant, `{"network":"wire","ip":"10.115.2.20","ip6":"fd10:115:2::20"}`))
	s.RunFor(t, s.both, s.beside, s.user, s.wired)
}

// checkFunction requires that an interface is the function that the network status names,
// with the settings of its network. It returns the function's address.
func (s *sriovScene) checkFunction(t *testing.T, pod *corev1.Pod, name string, status nadv1.NetworkStatus) string {
	t.Helper()
	if status.Interface != name || status.DeviceInfo == nil || status.DeviceInfo.Pci == nil {
		t.Fatalf("pod %s has %+v, want %s with a device", pod.Name, status, name)
	}
	address := status.DeviceInfo.Pci.PciAddress
	number := slices.Index(s.addresses, address)
	if number < 0 {
		t.Fatalf("%s of pod %s is the device %s, which nobody offers", name, pod.Name, address)
	}
	got := devicesOf(t, s.InNetNS(t, pod, "ip", "-j", "-d", "link", "show", "dev", name))[0]
	if got.Address != status.Mac || !slices.Contains(got.Flags, "UP") || pod != s.user && got.Parent != address {
		t.Errorf("%s of pod %s is %+v, want the device %s with the address %s", name, pod.Name, got, address, status.Mac)
	}
	want := map[string]any{"address": status.Mac, "spoofchk": true, "trust": false, "vlan_list": []any{map[string]any{}}}
	if strings.HasPrefix(name, "tagged") {
		want["vlan_list"] = []any{map[string]any{"vlan": float64(tag)}}
	}
	settings := s.settingsOf(t, number)
	for key, value := range want {
		if diff := cmp.Diff(value, settings[key]); diff != "" {
			t.Errorf("%s of the function of %s (-want +got):\n%s", key, name, diff)
		}
	}
	return address
}

// checkStandIn requires the dummy of a pod whose program drives the function, and the files that
// the program needs for it.
func (s *sriovScene) checkStandIn(t *testing.T) {
	t.Helper()
	link := s.InNetNS(t, s.user, "ip", "-d", "link", "show", "dev", "user1")
	if !strings.Contains(link, "dummy") || !strings.Contains(link, "alias "+s.addresses[3]) {
		t.Errorf("user1 is %s, want a dummy with the alias %s", link, s.addresses[3])
	}
	if ip := s.OnDevice(t, s.user, "user1", false); ip.String() != "10.115.4.10" {
		t.Errorf("user1 has %s", ip)
	}
	if files := s.InPod(t, s.user, "ls", "/dev/vfio"); len(strings.Fields(files)) != 2 {
		t.Errorf("the pod has the files %q, want vfio and that of the device's group", files)
	}
}

// checkTraffic requires that interfaces of one segment reach each other, and that interfaces in the
// VLAN reach nothing else.
func (s *sriovScene) checkTraffic(t *testing.T) {
	t.Helper()
	s.ExpectAnswers(t, s.both, stage.WantPod(s.wired)) // in the VPC
	for _, v6 := range []bool{false, true} {
		s.ping(t, s.both, s.OnDevice(t, s.wired, "wire1", v6))
		s.ping(t, s.both, s.OnDevice(t, s.beside, "tagged1", v6))
	}
	s.expectClusterIP(t, "tagged", s.both, "tagged2", s.beside)
	s.InNetNS(t, s.beside, "ip", "addr", "add", "10.115.2.11/24", "dev", "tagged1")
	if out, err := s.Exec(stage.Within(t, stage.Patience), s.beside, "ping", "-c", "1", "-W", "2", "10.115.2.20"); err == nil {
		t.Errorf("a pod in the VLAN reaches one outside: %s", out)
	}
}

// checkRefusals requires that a pod waits for a device while all are in use, and that the condition
// of a pod without a request says so.
func (s *sriovScene) checkRefusals(t *testing.T, tenant *scene.Tenant) {
	t.Helper()
	late := tenant.Pod("late", requesting(pool, 1), interfaces(tenant, `{"network":"tagged","ip":"dynamic"}`))
	forgetful := tenant.Pod("forgetful", interfaces(tenant, `{"network":"tagged","ip":"dynamic"}`))
	s.Make(t, late, forgetful)
	s.ExpectRefused(t, forgetful, v1alpha1.DevicesNotRequestedReason, pool)
	err := scene.Until(stage.Within(t, stage.Patience), "the scheduler to miss a device", func(ctx context.Context) (bool, string, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(late), late); err != nil {
			return false, "", err
		}
		c := scene.PodCondition(late, corev1.PodScheduled)
		return c != nil && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "Insufficient "+pool), fmt.Sprintf("%+v", c), nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Delete(stage.Within(t, stage.Patience), late, forgetful); err != nil {
		t.Fatal(err)
	}
}
