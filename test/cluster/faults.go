// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// SystemNamespace is where the chart is installed.
const SystemNamespace = "alioth-system"

// CutLink pulls a node's cable: its eth0 loses the carrier.
func (c *Cluster) CutLink(nodeName string) error { return c.setLink(nodeName, false) }

// RestoreLink plugs the cable in again.
func (c *Cluster) RestoreLink(nodeName string) error { return c.setLink(nodeName, true) }

func (c *Cluster) setLink(nodeName string, up bool) error {
	t := c.Topology()
	i := t.NodeIndex(nodeName)
	if i == 0 {
		return fmt.Errorf("find the cable of %q: the lab has no such node", nodeName)
	}
	return t.SetLink(i, up)
}

// Host is a machine on the underlay outside of the cluster.
type Host struct {
	c    *Cluster
	name string
	// NetNS is the file of its network namespace.
	NetNS string
	// IPs are its own addresses.
	IPs []netip.Addr
}

// AddHost makes a machine on the underlay outside of the cluster, with addresses of the lab's
// networks on its eth0 and no further routes. name is at most 15 characters and unlike a node's;
// Remove, or the end of the lab, removes it.
func (c *Cluster) AddHost(name string, ips ...netip.Addr) (*Host, error) {
	err := c.state.update(func(s *State) {
		if !slices.Contains(s.Hosts, name) {
			s.Hosts = append(s.Hosts, name)
		}
	})
	if err != nil {
		return nil, err
	}
	ns, err := c.Topology().AddHost(name, ips...)
	if err != nil {
		return nil, err
	}
	return &Host{c: c, name: name, NetNS: underlay.NetNSPath(ns), IPs: ips}, nil
}

// Exec runs a command with the host's network and returns its standard output.
func (h *Host) Exec(ctx context.Context, args ...string) (string, error) {
	return runIn(ctx, h.name, process.Space{Net: h.NetNS}, args)
}

// Remove ends the host.
func (h *Host) Remove() error {
	err := h.c.Topology().RemoveHost(h.name)
	return errors.Join(err, h.c.state.update(func(s *State) {
		s.Hosts = slices.DeleteFunc(s.Hosts, func(name string) bool { return name == h.name })
	}))
}

// SignalContainer sends a signal to the first process of a pod's container;
// container "" is the pod's first. It returns when the signal is sent.
func (c *Cluster) SignalContainer(ctx context.Context, namespace, pod, container string, sig unix.Signal) error {
	object, err := c.Client().CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the pod to signal: %w", err)
	}
	id, err := containerID(object, container)
	if err != nil {
		return err
	}
	pid, err := c.containerPID(ctx, object.Spec.NodeName, id)
	if err != nil {
		return err
	}
	if c.isGuest(object.Spec.NodeName) {
		_, err := c.runOnGuest(ctx, object.Spec.NodeName, []string{"kill", "-" + strconv.Itoa(int(sig)), strconv.Itoa(pid)})
		return err
	}
	target, err := process.Identify(pid)
	if err != nil {
		return err
	}
	return target.Signal(sig)
}

// containerID returns the runtime's ID of a pod's running container.
func containerID(pod *corev1.Pod, container string) (string, error) {
	for _, status := range pod.Status.ContainerStatuses {
		if container != "" && status.Name != container {
			continue
		}
		if status.State.Running == nil {
			return "", fmt.Errorf("container %s of pod %s/%s does not run", status.Name, pod.Namespace, pod.Name)
		}
		_, id, _ := strings.Cut(status.ContainerID, "://")
		return id, nil
	}
	return "", fmt.Errorf("pod %s/%s has no container %q", pod.Namespace, pod.Name, container)
}

// DaemonPod returns the pod of Alioth's daemon on a node: the one there that a
// DaemonSet in SystemNamespace owns.
func (c *Cluster) DaemonPod(ctx context.Context, nodeName string) (*corev1.Pod, error) {
	list, err := c.Client().CoreV1().Pods(SystemNamespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		return nil, fmt.Errorf("find the daemon on %s: %w", nodeName, err)
	}
	for i := range list.Items {
		owner := metav1.GetControllerOf(&list.Items[i])
		if owner != nil && owner.Kind == "DaemonSet" && list.Items[i].DeletionTimestamp == nil {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("find the daemon on %s: no pod of a DaemonSet in %s", nodeName, SystemNamespace)
}

// KillDaemon kills Alioth's daemon on a node without warning. The kubelet
// starts it again.
func (c *Cluster) KillDaemon(ctx context.Context, nodeName string) error {
	return c.signalDaemon(ctx, nodeName, unix.SIGKILL)
}

// StopDaemon freezes Alioth's daemon on a node until ResumeDaemon or until a
// probe of the kubelet gives up on it.
func (c *Cluster) StopDaemon(ctx context.Context, nodeName string) error {
	return c.signalDaemon(ctx, nodeName, unix.SIGSTOP)
}

// ResumeDaemon lets a daemon go on that StopDaemon froze.
func (c *Cluster) ResumeDaemon(ctx context.Context, nodeName string) error {
	return c.signalDaemon(ctx, nodeName, unix.SIGCONT)
}

func (c *Cluster) signalDaemon(ctx context.Context, nodeName string, sig unix.Signal) error {
	pod, err := c.DaemonPod(ctx, nodeName)
	if err != nil {
		return err
	}
	return c.SignalContainer(ctx, pod.Namespace, pod.Name, "", sig)
}

// PodNetNS returns the path, seen from the host, of a running pod's network
// namespace. On a virtual machine it is seen from there.
func (c *Cluster) PodNetNS(ctx context.Context, namespace, pod string) (string, error) {
	object, err := c.Client().CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("find the pod: %w", err)
	}
	id, err := containerID(object, "")
	if err != nil {
		return "", err
	}
	pid, err := c.containerPID(ctx, object.Spec.NodeName, id)
	if err != nil {
		return "", err
	}
	return process.SpaceOf(process.ID{PID: pid}).Net, nil
}

// containerPID returns the ID, on the host or on a virtual machine, of a container's
// first process. id is the container's ID without its scheme.
func (c *Cluster) containerPID(ctx context.Context, nodeName, id string) (pid int, err error) {
	raw, err := c.ReadNodeFile(ctx, nodeName, path.Join(node.TasksDir, id, "init.pid"))
	if err != nil {
		return 0, fmt.Errorf("find the process of container %s: %w", id, err)
	}
	if _, err := fmt.Sscan(string(raw), &pid); err != nil {
		return 0, fmt.Errorf("parse the process ID of container %s: %w", id, err)
	}
	return pid, nil
}

// Renumber gives a node another IPv4 address in the underlay in place of its present one: its own
// of Nodes, or its SpareIP, which its certificate covers as well. The kubelet is started anew with
// it. Connections from and to the old address break.
func (c *Cluster) Renumber(ctx context.Context, nodeName string, from, to netip.Addr) error {
	network, _ := c.Topology().Networks()
	inNetwork := func(ip netip.Addr) string { return netip.PrefixFrom(ip, network.Bits()).String() }
	for _, command := range [][]string{
		// Else the new address, and all routes, go with the old one.
		{"sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/promote_secondaries"},
		{"ip", "address", "add", inNetwork(to), "dev", "eth0"},
		{"ip", "address", "del", inNetwork(from), "dev", "eth0"},
	} {
		if _, err := c.NodeExec(ctx, nodeName, command...); err != nil {
			return fmt.Errorf("give %s the address %s: %w", nodeName, to, err)
		}
	}
	kubelet := nodeName + "/kubelet"
	if err := c.StopProcess(ctx, kubelet); err != nil {
		return err
	}
	err := c.state.update(func(s *State) {
		d := s.Daemons[kubelet]
		d.Spec.Args = withNodeIP(d.Spec.Args, from, to)
		s.setDaemon(d)
	})
	if err != nil {
		return err
	}
	return c.StartProcess(ctx, kubelet)
}

// withNodeIP replaces one of the addresses in a kubelet's arguments.
func withNodeIP(args []string, from, to netip.Addr) []string {
	const flag = "--node-ip="
	args = slices.Clone(args)
	for i, arg := range args {
		list, isFlag := strings.CutPrefix(arg, flag)
		if !isFlag {
			continue
		}
		ips := strings.Split(list, ",")
		if at := slices.Index(ips, from.String()); at >= 0 {
			ips[at] = to.String()
		}
		args[i] = flag + strings.Join(ips, ",")
	}
	return args
}

// EtcdData returns the folder of etcd's data, to replace it while etcd is stopped.
func (c *Cluster) EtcdData() string { return c.path("control", "etcd") }

// ControlPlane returns the names of the processes of the control plane, for StopProcess and
// StartProcess, in the order of their start.
func (c *Cluster) ControlPlane() []string {
	first := c.Nodes()[0].Name + "/"
	return []string{first + "etcd", first + "kube-apiserver", first + "kube-controller-manager", first + "kube-scheduler"}
}
