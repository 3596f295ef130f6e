// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

const podDeviceVeth, podDeviceNetkit = PodDevice(veth.Kind), PodDevice(netkit.Kind)

func TestPodDevice_SettingAndKernel_KindChosen(t *testing.T) {
	broken := errors.New("no memory")
	for _, c := range []struct {
		choice  PodDevice
		kernel  error
		want    ifdriver.Kind
		refusal string
	}{
		{choice: podDeviceVeth, want: veth.Kind},
		{choice: podDeviceVeth, kernel: ifdriver.ErrUnsupported, want: veth.Kind},
		{choice: podDeviceNetkit, want: netkit.Kind},
		{choice: podDeviceNetkit, kernel: ifdriver.ErrUnsupported, refusal: "--pod-device=auto"},
		{choice: podDeviceNetkit, kernel: broken, refusal: "no memory"},
		{choice: PodDeviceAuto, want: netkit.Kind},
		{choice: PodDeviceAuto, kernel: ifdriver.ErrUnsupported, want: veth.Kind},
		{choice: PodDeviceAuto, kernel: broken, want: veth.Kind},
	} {
		t.Run(fmt.Sprintf("%s, %v", c.choice, c.kernel), func(t *testing.T) {
			registry := drivers.All()
			for i := range registry {
				if registry[i].Kind == netkit.Kind {
					registry[i].Maker = kernel{registry[i].Maker, c.kernel}
				}
			}
			got, err := choosePodDevice(t.Context(), c.choice, registry, slog.New(slog.DiscardHandler))
			if got != c.want || (err != nil) != (c.refusal != "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// kernel has the features that a driver finds when it probes the kernel.
type kernel struct {
	ifdriver.Maker
	answer error
}

// Probe implements ifdriver.Maker.
func (k kernel) Probe(context.Context) error { return k.answer }

// attachedAs returns the record of a pod's attachment and its device on the node.
func (p *labPod) attachedAs(t *testing.T) (rec nodestatus.Attachment, device netlink.Link, err error) {
	t.Helper()
	status, err := nodestatus.Fetch(t.Context(), p.node.cfg.socket())
	if err != nil {
		return rec, nil, err
	}
	for _, rec = range status.Attachments {
		if rec.Pod.Name == p.name {
			testnet.In(t, p.node, func() error {
				device, err = netlink.LinkByName(rec.HostIfName)
				return nil
			})
			return rec, device, err
		}
	}
	return rec, nil, fmt.Errorf("pod %s is not attached", p.name)
}

// wantDevice checks the kind of a pod's interface, and that the journal has the same kind.
func (p *labPod) wantDevice(t *testing.T, when string, kind ifdriver.Kind) {
	t.Helper()
	rec, device, err := p.attachedAs(t)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if rec.Kind != string(kind) || device.Type() != string(kind) {
		t.Errorf("%s: pod %s has a %s and the journal says %q, want %s", when, p.name, device.Type(), rec.Kind, kind)
	}
}

// unharmed checks that everything works, and that nothing differs from the wanted state.
func (l *lab) unharmed(t *testing.T, when string) {
	t.Helper()
	if err := l.works(t); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, difference := range l.differences(t) {
		t.Errorf("%s: %v", when, difference)
	}
}

// TestPodDevice_SettingChanged_RunningPodKeepsKind goes through all ways that find the device of a
// running pod from outside: a restart with another setting, repair, and a journal that is lost.
func TestPodDevice_SettingChanged_RunningPodKeepsKind(t *testing.T) {
	t.Parallel()
	if err := drivers.All().Probe(t.Context(), netkit.Kind); errors.Is(err, ifdriver.ErrUnsupported) {
		t.Skip("missing feature: netkit (Linux 6.7)")
	}
	l := newLab(t)
	for _, m := range l.nodes {
		m.cfg.PodDevice = podDeviceNetkit
	}
	l.start(t)
	b1, b2, n := l.pods["b1"], l.pods["b2"], l.nodes[0]
	for _, p := range l.pods {
		p.wantDevice(t, "at first", netkit.Kind)
	}
	l.unharmed(t, "at first")

	n.stop(unix.SIGTERM)
	n.cfg.PodDevice = podDeviceVeth
	n.start(t)
	for _, command := range []string{"DEL", "ADD"} {
		if err := l.cni(t, command, b2); err != nil {
			t.Fatal(err)
		}
	}
	b1.wantDevice(t, "with another setting", netkit.Kind)
	b2.wantDevice(t, "with another setting", veth.Kind)
	l.unharmed(t, "with another setting")

	rec, device, err := b1.attachedAs(t)
	if err != nil {
		t.Fatal(err)
	}
	testnet.In(t, n, func() error { return netlink.LinkDel(device) })
	eventually(t, "the deleted interface is made anew and programmed", func() error {
		again, _, err := b1.attachedAs(t)
		if err == nil && again.Device.HostIfindex == rec.Device.HostIfindex {
			err = errors.New("the record names the old one")
		}
		return errors.Join(err, l.works(t))
	})
	b1.wantDevice(t, "made anew", netkit.Kind)
	l.unharmed(t, "made anew")

	n.stop(unix.SIGKILL)
	if err := os.Remove(n.cfg.journalFile()); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	b1.wantDevice(t, "from the device alone", netkit.Kind)
	b2.wantDevice(t, "from the device alone", veth.Kind)
	l.unharmed(t, "from the device alone")

	n.stop(unix.SIGTERM)
	n.uninstall(t)
	testnet.In(t, n, func() error {
		links, err := rtnl.Complete(netlink.LinkList)
		for _, link := range links {
			if strings.HasPrefix(link.Attrs().Name, hostdev.PodPrefix) {
				t.Errorf("%s is left", link.Attrs().Name)
			}
		}
		return err
	})
}
