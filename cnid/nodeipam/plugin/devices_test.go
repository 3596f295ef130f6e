// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// deviceMAC is the address of the device that a resttest.Service with Devices delegates.
var deviceMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}

// newNode returns a rig in a network namespace that stands for a node.
func newNode(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.node = netnstest.New(t)
	return r
}

// plug gives the node the device nic0.
func (r *rig) plug() {
	r.t.Helper()
	r.node.Do(r.t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = "nic0", deviceMAC
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far"})
	})
}

// back fails the test if the device is not on the node as it was, or something is left.
func (r *rig) back(service rest.Service, attachments int) {
	r.t.Helper()
	if got := r.node.Links(r.t); !slices.Equal(got, []string{"far", "nic0"}) || r.node.Link(r.t, "nic0").Attrs().Flags&net.FlagUp != 0 {
		r.t.Errorf("the node has %v", got)
	}
	if left, err := filepath.Glob(filepath.Join(r.devices(), "*.json*")); err != nil || len(left) != 0 {
		r.t.Errorf("notes %v are left, %v", left, err)
	}
	if got := attached(r.t, service); got != attachments {
		r.t.Errorf("%d attachments, want %d", got, attachments)
	}
}

// defaults returns the names of the devices of a pod with a default route.
func defaults(t *testing.T, pod *netnstest.Namespace) (names []string) {
	t.Helper()
	pod.Do(t, func() error {
		list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, route := range list {
			if route.Dst != nil && route.Dst.IP.IsUnspecified() {
				link, err := netlink.LinkByIndex(route.LinkIndex)
				if err != nil {
					return err
				}
				names = append(names, link.Attrs().Name)
			}
		}
		return err
	})
	return names
}

func TestPlugin_PodRequestsDevice_DelegatedDeviceGiven(t *testing.T) {
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			r, service, pod := newNode(t), &resttest.Service{Devices: true}, netnstest.New(t)
			r.plug()
			r.serve(service)
			c := command{container: "c", ifName: "eth0", version: version, netns: pod.Path}
			out, res := r.add(c)
			// The gateway in the service's answer is outside of this subnet.
			if len(res.Interfaces) != 0 || len(res.IPs) != 1 || res.IPs[0].Address.String() != "192.0.2.2/24" ||
				len(res.Routes) != 1 || res.Routes[0].Dst.String() != "10.96.0.0/12" || res.Routes[0].GW.String() != "192.0.2.1" {
				t.Errorf("%s", out)
			}
			if got, by := pod.Links(t), defaults(t, pod); !slices.Equal(got, []string{"eth1"}) || !slices.Equal(by, []string{"eth1"}) {
				t.Errorf("the pod has %v, and default routes by %v", got, by)
			}
			if again, _ := r.add(c); again != out {
				t.Errorf("the second time: %s", again)
			}
			check := c
			check.verb, check.extra = "CHECK", map[string]any{"prevResult": json.RawMessage(out)}
			if version >= "0.4.0" {
				if _, err := r.run(check); err != nil {
					t.Errorf("CHECK: %v", err)
				}
				pod.Do(t, netnstest.OnLink("eth1", netlink.LinkSetDown))
				if _, err := r.run(check); code(err) != 100 || !strings.Contains(err.Error(), "eth1 is down") {
					t.Errorf("CHECK of a device that is down: %v", err)
				}
			}
			c.verb = "DEL"
			for range 2 {
				if out, err := r.run(c); err != nil || out != "" {
					t.Errorf("DEL: %s, %v", out, err)
				}
			}
			r.back(service, 0)
		})
	}
}

func TestPluginADD_FailureHalfWay_Released(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, r *rig, pod *netnstest.Namespace)
		extra   map[string]any
		code    uint
		text    string
	}{
		"the device is missing": {func(t *testing.T, r *rig, _ *netnstest.Namespace) {
			t.Helper()
			r.node.Do(t, netnstest.OnLink("nic0", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 9}) }))
		}, nil, 11, "none has the address 02:00:00:00:00:01"},
		"the device is the node's": {func(t *testing.T, r *rig, _ *netnstest.Namespace) {
			t.Helper()
			r.node.Do(t, netnstest.OnLink("nic0", func(l netlink.Link) error {
				return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 9), Mask: net.CIDRMask(24, 32)}})
			}))
		}, nil, 100, "nic0 has the node's address 192.0.2.9"},
		"the name is taken": {func(t *testing.T, _ *rig, pod *netnstest.Namespace) {
			t.Helper()
			pod.Do(t, func() error {
				attrs := netlink.NewLinkAttrs()
				attrs.Name = "eth1"
				return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"})
			})
		}, nil, 100, "interface eth1 that Alioth did not make"},
		"bridge adds a default route": {
			func(*testing.T, *rig, *netnstest.Namespace) {},
			map[string]any{"isDefaultGateway": true},
			7, "use isGateway instead",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, service, pod := newNode(t), &resttest.Service{Devices: true}, netnstest.New(t)
			r.plug()
			r.serve(service)
			c.prepare(t, r, pod)
			_, err := r.run(command{verb: "ADD", container: "c", ifName: "eth0", version: "1.1.0", netns: pod.Path, extra: c.extra})
			if code(err) != c.code || !strings.Contains(err.Error(), c.text) || strings.HasPrefix(err.Error(), "network is not ready - ") != (c.code == 11) {
				t.Errorf("code %d, %v, want %d, %q", code(err), err, c.code, c.text)
			}
			r.back(service, 0)
		})
	}
}

func TestPluginBridge_PodWithoutDevices_DefaultRouteAllowed(t *testing.T) {
	r, service := newRig(t), &resttest.Service{}
	r.serve(service)
	r.add(command{container: "c", ifName: "eth0", version: "1.1.0", extra: map[string]any{"isDefaultGateway": true}})
	if _, err := os.Stat(r.devices()); !os.IsNotExist(err) {
		t.Errorf("a pod without devices has notes about them (%v)", err)
	}
}

func TestPlugin_InterfaceNameOfDevice_Refused(t *testing.T) {
	r, service, pod := newNode(t), &resttest.Service{Devices: true}, netnstest.New(t)
	r.plug()
	r.serve(service)
	_, err := r.run(command{verb: "ADD", container: "d", ifName: "eth1", version: "1.1.0", netns: pod.Path})
	if code(err) != 100 || !strings.Contains(err.Error(), "eth1 is a device of the node") {
		t.Errorf("%v", err)
	}
	r.back(service, 0)
}

func TestPluginDEL_ServiceDown_DeviceReturned(t *testing.T) {
	r, service, pod := newNode(t), &resttest.Service{Devices: true}, netnstest.New(t)
	r.plug()
	stop := r.serve(service)
	c := command{container: "c", ifName: "eth0", version: "1.1.0", netns: pod.Path}
	r.add(c)
	stop()
	c.verb = "DEL"
	if _, err := r.run(c); err != nil {
		t.Fatal(err)
	}
	r.back(service, 1) // until the daemon is back
	files, err := os.ReadDir(r.queue)
	if err != nil || len(files) != 1 {
		t.Fatalf("queued: %v, %v", files, err)
	}
	if one, _, err := queue.Read(r.queue, files[0].Name()); err != nil || one.ContainerID != "c" || one.IfName != "eth0" {
		t.Errorf("%v, %v", one, err)
	}
}

func TestPluginDEL_ReleaseFails_ReportedWithError(t *testing.T) {
	r, pod := newNode(t), netnstest.New(t)
	service := &resttest.Service{Devices: true, Before: func(_ context.Context, method string) error {
		if method == "Release" {
			return &rest.NotReady{Reason: "the journal is full"}
		}
		return nil
	}}
	r.serve(service)
	out, err := r.run(command{verb: "ADD", container: "c", ifName: "eth0", version: "1.1.0", netns: pod.Path})
	if code(err) != 11 || !strings.Contains(err.Error(), "none has the address") ||
		!strings.Contains(out, "the addresses are not released: network is not ready - the journal is full") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestPluginGC_ServiceReleasedDevices_Returned(t *testing.T) {
	r, service, pod := newNode(t), &resttest.Service{Devices: true}, netnstest.New(t)
	r.plug()
	r.serve(service)
	c := command{container: "c", ifName: "eth0", version: "1.1.0", netns: pod.Path}
	r.add(c)
	gc := func(valid ...any) {
		t.Helper()
		if _, err := r.run(command{verb: "GC", version: "1.1.0", extra: map[string]any{"cni.dev/valid-attachments": valid}}); err != nil {
			t.Fatal(err)
		}
	}
	gc(map[string]string{"containerID": "c", "ifname": "eth0"})
	if got := pod.Links(t); !slices.Equal(got, []string{"eth1"}) || attached(t, service) != 1 {
		t.Errorf("the pod has %v, %d attachments", got, attached(t, service))
	}
	service.Keep = true
	gc()
	if got := pod.Links(t); !slices.Equal(got, []string{"eth1"}) {
		t.Errorf("the service has not released it, and the pod has %v", got)
	}
	service.Keep = false
	gc()
	r.back(service, 0)
}
