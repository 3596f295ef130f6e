// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/store"
)

// registry returns the registry of the release, with the test driver where the script names
// sandboxes for it.
func (s script) registry() ifdriver.Registry {
	all := drivers.All()
	if len(s.Sandboxes) > 0 {
		all = append(all, attachmenttest.Type(func() []string { return s.Sandboxes }))
	}
	return all
}

// physical returns an attachment to a network outside of every VPC.
func physical(name, addr string) netif.Interface {
	return netif.Interface{
		Name: name, Kind: string(attachmenttest.Kind), Outside: "physical", OutsideUID: "uid-physical", Addresses: []netip.Prefix{netip.MustParsePrefix(addr)},
	}
}

// addHostless adds a pod to a node whose one attachment leads outside of every VPC.
func (l *lab) addHostless(t *testing.T, m *machine, space ns.NetNS, name, addr string) *labPod {
	t.Helper()
	pod := &labPod{NetNS: space, name: name, uid: name, node: m, addrs: []netip.Prefix{netip.MustParsePrefix(addr)}}
	text, err := annotations.FormatAttachments([]netif.Interface{physical("eth0", addr)})
	if err != nil {
		t.Fatal(err)
	}
	m.script.Pods = append(m.script.Pods, store.Pod{
		Meta: meta(name), Namespace: "ns", Name: name, Node: m.cfg.NodeName, Attachments: text, NetworkReady: true, Reason: v1alpha1.AttachedReason,
	})
	l.pods[name] = pod
	return pod
}

// attachPhysical gives a pod of the script one more attachment, which leads outside.
func (m *machine) attachPhysical(t *testing.T, pod, name, addr string) {
	t.Helper()
	m.attachMore(t, pod, physical(name, addr))
}

// attachMore gives a pod of the script one more attachment.
func (m *machine) attachMore(t *testing.T, pod string, reported netif.Interface) {
	t.Helper()
	m.script.Pods = slices.Clone(m.script.Pods)
	at := slices.IndexFunc(m.script.Pods, func(row store.Pod) bool { return row.Name == pod })
	list, err := annotations.ParseAttachments(m.script.Pods[at].Attachments)
	if err != nil {
		t.Fatal(err)
	}
	if m.script.Pods[at].Attachments, err = annotations.FormatAttachments(append(list, reported)); err != nil {
		t.Fatal(err)
	}
}

// command gives the daemon a command of a container runtime, and returns the result.
func (p *labPod) command(t *testing.T, command, more string) (string, error) {
	t.Helper()
	result, err := cniapi.Client{Socket: p.node.cfg.socket()}.Do(t.Context(), cniapi.Request{
		Command: command, ContainerID: "sandbox-" + p.name, Netns: p.Path(), IfName: "eth0", Path: "/",
		Args:   fmt.Sprintf("K8S_POD_NAMESPACE=ns;K8S_POD_NAME=%s;K8S_POD_UID=%s", p.name, p.uid),
		Config: []byte(`{"cniVersion":"1.1.0","name":"alioth","type":"alioth"` + more + `}`),
	})
	return string(result), err
}

// interfaces returns the names of a pod's interfaces other than lo.
func (p *labPod) interfaces(t *testing.T) (names []string) {
	t.Helper()
	testnet.In(t, p.NetNS, func() error {
		links, err := rtnl.Complete(netlink.LinkList)
		for _, link := range links {
			if name := link.Attrs().Name; name != "lo" {
				names = append(names, name)
			}
		}
		return err
	})
	slices.Sort(names)
	return names
}

// hostless is a node with a pod whose one interface has no end on the node, and a pod
// with such an interface beside one in a VPC.
type hostless struct {
	*lab
	node          *machine
	alone, beside *labPod
	// results are the results of the ADDs, by pod.
	results map[string]string
}

func newHostless(t *testing.T) *hostless {
	t.Helper()
	l := newLab(t)
	h := &hostless{lab: l, node: l.nodes[0], beside: l.pods["b1"], results: map[string]string{}}
	h.alone = l.addHostless(t, h.node, testnet.New(t), "o1", "198.51.100.7/24")
	h.node.attachPhysical(t, "b1", "net1", "198.51.100.9/24")
	h.node.script.Sandboxes = []string{h.alone.Path(), h.beside.Path()}
	return h
}

func (h *hostless) add(t *testing.T, pods ...*labPod) {
	t.Helper()
	for _, p := range pods {
		result, err := p.command(t, "ADD", "")
		if err != nil {
			t.Fatalf("ADD of %s: %v", p.name, err)
		}
		h.results[p.name] = result
	}
}

// intact returns nil while both pods have their given interfaces, on the node and by CHECK.
func (h *hostless) intact(t *testing.T) error {
	t.Helper()
	var errs []error
	for p, want := range map[*labPod][]string{h.alone: {"eth0"}, h.beside: {"eth0", "net1"}} {
		if diff := cmp.Diff(want, p.interfaces(t)); diff != "" {
			errs = append(errs, fmt.Errorf("interfaces of %s (-want +got):\n%s", p.name, diff))
		}
		if _, err := p.command(t, "CHECK", `,"prevResult":`+h.results[p.name]); err != nil {
			errs = append(errs, fmt.Errorf("CHECK of %s: %w", p.name, err))
		}
	}
	for _, difference := range h.differences(t) {
		if difference.Node == h.node.cfg.NodeName && difference.Kind != verify.NotAttached { // other pods of the lab
			errs = append(errs, errors.New(difference.String()))
		}
	}
	return errors.Join(errs...)
}

// attachments returns the attachments of the daemon's status, by pod and interface.
func (h *hostless) attachments(t *testing.T) map[string]string {
	t.Helper()
	status, err := nodestatus.Fetch(t.Context(), h.node.cfg.socket())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, rec := range status.Attachments {
		all[rec.Pod.Name+"/"+rec.IfName] = fmt.Sprint(rec.Kind, rec.VPC, rec.Outside, rec.HostIfName != "", rec.MAC, rec.Addrs, rec.Shadow4.IsValid())
	}
	return all
}

// TestDaemon_DriverWithoutHostEnd_Served hands the daemon's process a driver that only
// its own package and the registry know.
func TestDaemon_DriverWithoutHostEnd_Served(t *testing.T) {
	t.Parallel()
	h := newHostless(t)
	space := netnstest.New(t)
	handle, err := ns.GetNS(space.Path)
	if err != nil {
		t.Fatal(err)
	}
	ends := h.addHostless(t, h.node, handle, "o2", "198.51.100.8/24")
	h.node.script.Sandboxes = append(h.node.script.Sandboxes, space.Path)
	for _, m := range h.nodes {
		m.start(t)
	}
	h.add(t, h.alone, ends, h.beside)
	var result types100.Result
	if err := json.Unmarshal([]byte(h.results["b1"]), &result); err != nil || len(result.Interfaces) != 3 || len(result.IPs) != 3 ||
		*result.IPs[2].Interface != 2 {
		t.Errorf("the result of both interfaces is %s, %v", h.results["b1"], err)
	}
	want := h.attachments(t)
	if err := h.intact(t); err != nil || len(want) != 4 {
		t.Fatalf("after ADD of %v: %v", want, err)
	}

	h.node.stop(unix.SIGKILL)
	h.node.start(t)
	if err := h.intact(t); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if again, err := h.alone.command(t, "ADD", ""); err != nil || again != h.results["o1"] {
		t.Errorf("a repeated ADD gives %s, %v; want %s", again, err, h.results["o1"])
	}

	h.node.stop(unix.SIGKILL)
	if err := os.Remove(h.node.cfg.journalFile()); err != nil {
		t.Fatal(err)
	}
	h.node.start(t)
	eventually(t, "a journal that was lost is rebuilt", func() error {
		if diff := cmp.Diff(want, h.attachments(t)); diff != "" {
			return errors.New("attachments (-before +adopted):\n" + diff)
		}
		return h.intact(t)
	})

	if err := handle.Close(); err != nil {
		t.Fatal(err)
	}
	space.Close(t)
	if _, err := h.alone.command(t, "GC", `,"cni.dev/valid-attachments":[]`); err != nil {
		t.Errorf("GC: %v", err)
	}
	delete(want, "o2/eth0")
	if diff := cmp.Diff(want, h.attachments(t)); diff != "" {
		t.Errorf("a GC that lists none leaves (-what lives +what is left):\n%s", diff)
	}
	for _, p := range []*labPod{h.alone, h.beside} {
		if _, err := p.command(t, "DEL", ""); err != nil {
			t.Errorf("DEL of %s: %v", p.name, err)
		}
		if left := p.interfaces(t); len(left) > 0 {
			t.Errorf("%s still has %v", p.name, left)
		}
	}
	if left := h.attachments(t); len(left) > 0 {
		t.Errorf("after DEL the journal has %v", left)
	}
}

// TestInterfaceWithoutHostEnd_Deleted_Restored deletes interfaces in pods. No message about
// them reaches the node's namespace.
func TestInterfaceWithoutHostEnd_Deleted_Restored(t *testing.T) {
	t.Parallel()
	h := newHostless(t)
	h.node.cfg.RecheckEvery = 100 * time.Millisecond
	for _, m := range h.nodes {
		m.start(t)
	}
	h.add(t, h.alone, h.beside)
	for p, name := range map[*labPod]string{h.alone: "eth0", h.beside: "net1"} {
		before := h.node.repairs(t, finding.RepairInterface)
		testnet.In(t, p.NetNS, netnstest.OnLink(name, netlink.LinkDel))
		eventually(t, "interface "+name+" of "+p.name+" is restored", func() error {
			if after := h.node.repairs(t, finding.RepairInterface); after != before+1 {
				return fmt.Errorf("%d interfaces were restored, want 1", after-before)
			}
			return h.intact(t)
		})
	}
}

func TestTrace_InterfaceWithoutPrograms_Explained(t *testing.T) {
	t.Parallel()
	h := newHostless(t)
	h.node.start(t)
	h.add(t, h.alone, h.beside)
	to := netip.MustParseAddrPort("10.10.1.11:80")
	for says, q := range map[string]nodestatus.Question{
		`interface eth0 of pod ns/o1 leads to network "physical" outside of every VPC: Alioth forwards none of its packets, so there is nothing to trace; --interface`: {Pod: "ns/o1", To: to},
		`interface net1 of pod ns/b1 leads to network "physical" outside of every VPC: Alioth forwards none of its packets, so there is nothing to trace`:              {Pod: "ns/b1", Interface: "net1", To: to},
	} {
		if _, err := h.tryWalk(t, "node1", q); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	for address, tells := range map[string]bool{"198.51.100.7": true, "198.51.100.99": false} {
		steps := h.walk(t, h.beside, netip.AddrPortFrom(netip.MustParseAddr(address), 80))
		noted := strings.Contains(
			strings.Join(steps[0].Facts, "\n"),
			`pod ns/o1 has 198.51.100.7 on interface eth0 in network "physical" outside of every VPC, to which Alioth does not forward`,
		)
		if noted != tells || !steps[0].Dropped {
			t.Errorf("trace to %s: %+v", address, steps)
		}
	}
}

// TestADD_UnknownKind_RefusedAtOnce asks a daemon without the driver.
func TestADD_UnknownKind_RefusedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	pod := l.addHostless(t, l.nodes[0], testnet.New(t), "o1", "198.51.100.7/24")
	l.nodes[0].start(t)
	_, err := pod.command(t, "ADD", "")
	if err == nil || !strings.Contains(err.Error(), `kind "bridge", and node node1 has the kinds ipvlan, macvlan, netkit, veth`) {
		t.Errorf("ADD: %v", err)
	}
	if left := pod.interfaces(t); len(left) > 0 {
		t.Errorf("the pod has %v", left)
	}
}
