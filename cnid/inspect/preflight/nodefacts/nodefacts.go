// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodefacts collects the facts of a node that package preflight judges. It changes
// nothing of the node: it tries things in a network namespace that ends with the attempt.
package nodefacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// Config selects the node and its folders.
type Config struct {
	// Root is the folder with the files of the node: "/" on the node itself. The caller is in
	// the network namespace of the node.
	Root string
	// Values are the values of the chart.
	Values preflight.Values
	// StateDir is the folder of the journal.
	StateDir string
}

// proxyAddress is kube-proxy's address for questions of the node's processes about its mode.
const proxyAddress = "127.0.0.1:10249"

// otherFolders are the folders of CNI configurations of distributions that have their own.
var otherFolders = []string{
	"/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/rke2/agent/etc/cni/net.d", "/var/snap/microk8s/current/args/cni-network",
	"/var/lib/k0s/cni/net.d",
}

// runtimeSockets are the sockets of container runtimes.
var runtimeSockets = map[string]string{
	"containerd": "/run/containerd/containerd.sock", "CRI-O": "/run/crio/crio.sock",
	"containerd of k3s or RKE2": "/run/k3s/containerd/containerd.sock", "containerd of k0s": "/run/k0s/containerd.sock",
}

// Node collects the facts of the node. A fact that can't be found is named in Unread.
func Node(ctx context.Context, cfg Config) preflight.Node {
	n := &node{cfg: cfg, Node: preflight.Node{Root: os.Geteuid() == 0}}
	n.system()
	n.folders(ctx)
	n.network(ctx)
	n.ProxyMode = proxyMode(ctx)
	if n.Root {
		n.filters(ctx)
		n.hooks()
		n.Problems = rehearse(ctx, cfg)
	}
	return n.Node
}

// node is a node whose facts are being collected.
type node struct {
	preflight.Node
	cfg Config
}

// at returns the path of a file of the node.
func (n *node) at(path string) string { return filepath.Join(n.cfg.Root, path) }

// unread notes a fact that could not be found.
func (n *node) unread(what string, err error) {
	if err != nil {
		n.Unread = append(n.Unread, quote.Message(fmt.Sprintf("%s: %v", what, err)))
	}
}

func (n *node) system() {
	var name unix.Utsname
	n.unread("read the version of the kernel", unix.Uname(&name))
	n.Kernel, n.Name = unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Nodename[:])
	if _, err := install.CgroupRoot(n.cfg.Values.Daemon.CgroupRoot); err != nil {
		n.Cgroup = err.Error()
	}
	if err := programs.CheckPinDir(n.at(programs.DefaultPinDir)); err != nil {
		n.BPFFS = err.Error()
	}
	free, err := freeBytes(n.at(n.cfg.StateDir))
	if err != nil {
		n.unread("read the free space", err)
		return
	}
	n.FreeBytes = &free
}

// freeBytes returns the free space of the file system of a folder, which may be missing.
func freeBytes(dir string) (uint64, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(dir, &fs)
		if err == nil {
			return fs.Bavail * uint64(fs.Bsize), nil
		}
		if !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			return 0, err
		}
		dir = filepath.Dir(dir)
	}
}

func (n *node) folders(ctx context.Context) {
	n.Configurations = n.list(n.cfg.Values.Daemon.CNIConfDir)
	n.Plugins = n.list(n.cfg.Values.Daemon.CNIBinDir)
	for _, dir := range otherFolders {
		if filepath.Clean(dir) != filepath.Clean(n.cfg.Values.Daemon.CNIConfDir) &&
			slices.ContainsFunc(n.list(dir), cnidir.IsConfiguration) {
			n.OtherFolders = append(n.OtherFolders, dir)
		}
	}
	for name, path := range runtimeSockets {
		if n.exists(path) {
			n.Sockets = append(n.Sockets, name)
		}
	}
	slices.Sort(n.Sockets)
	for _, path := range []string{
		filepath.Join(n.cfg.Values.Daemon.CNIConfDir, cnidir.ConflistName), cniapi.DefaultSocket,
		filepath.Join(n.cfg.StateDir, "journal.log"), programs.LinkDir(programs.DefaultPinDir),
	} {
		if n.exists(path) {
			n.Alioth = append(n.Alioth, path)
		}
	}
	n.Running = listens(ctx, n.at(cniapi.DefaultSocket))
}

// listens reports whether a process listens at a Unix socket. A daemon that was killed leaves
// the file of its socket.
func listens(ctx context.Context, path string) bool {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

func (n *node) exists(path string) bool {
	_, err := os.Lstat(n.at(path))
	return err == nil
}

// list returns the names of the files of a folder of the node; none if it is missing.
func (n *node) list(dir string) (names []string) {
	entries, err := os.ReadDir(n.at(dir))
	if !errors.Is(err, fs.ErrNotExist) {
		n.unread("list the folder "+dir, err)
	}
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names
}

func (n *node) network(ctx context.Context) {
	host, err := netdev.New("", slog.New(slog.DiscardHandler))
	if err != nil {
		n.unread("open netlink", err)
		return
	}
	defer host.Close()
	n.sockets(host)
	addresses, err := ownAddresses(ctx)
	n.unread("list addresses", err)
	for _, ip := range addresses {
		found, err := host.Underlay(ip)
		if err != nil {
			n.unread("find the device of "+ip.String(), err)
			continue
		}
		settings, err := netdev.UplinkDeviations(found.Device)
		n.unread("read the kernel settings of "+found.Device, err)
		n.Uplinks = append(
			n.Uplinks,
			preflight.Uplink{Address: ip, Device: found.Device, PodMTU: found.PodMTU, Settings: settings},
		)
	}
}

func (n *node) sockets(host *netdev.Host) {
	own, err := ownPorts()
	n.unread("list devices", err)
	for name, protocol := range map[string]uint8{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP} {
		listeners, err := host.Listeners(protocol)
		n.unread("list sockets", err)
		for _, address := range listeners {
			if protocol != unix.IPPROTO_UDP || !slices.Contains(own, int(address.Port())) {
				n.Listening = append(n.Listening, preflight.Listener{Protocol: name, Address: address})
			}
		}
	}
	slices.SortFunc(n.Listening, func(a, b preflight.Listener) int { return a.Address.Compare(b.Address) })
}

// ownPorts returns the UDP ports of Alioth's VXLAN devices. The kernel receives there as long as
// the devices are on the node, also while no daemon runs.
func ownPorts() (ports []int, err error) {
	devices, err := rtnl.Complete(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	for _, device := range devices {
		vxlan, ok := device.(*netlink.Vxlan)
		if !ok {
			continue
		}
		if _, marked := links.Marked(vxlan.Alias); marked || vxlan.Name == hostdev.Tunnel {
			ports = append(ports, vxlan.Port)
		}
	}
	return ports, nil
}

// uplinkFor is an address that no host has: the kernel's route to it selects the node's own
// address, and no packet is sent.
var uplinkFor = []string{"192.0.2.1:9", "[2001:db8::1]:9"}

// ownAddresses returns the addresses that the node uses to reach other hosts.
func ownAddresses(ctx context.Context) (list []netip.Addr, err error) {
	for _, destination := range uplinkFor {
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", destination)
		if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			continue
		}
		if err != nil {
			return list, err
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			list = append(list, local.AddrPort().Addr().Unmap())
		}
		conn.Close()
	}
	return list, nil
}

// proxyMode asks a kube-proxy of this node for its mode.
func proxyMode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// The socket has to be in the network namespace of the calling thread.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxyAddress)
	if err != nil {
		return ""
	}
	defer conn.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxyAddress+"/proxyMode", http.NoBody)
	if err != nil {
		return ""
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	mode, err := io.ReadAll(io.LimitReader(response.Body, 64))
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return quote.Message(strings.TrimSpace(string(mode)))
}
