// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Defaults of Config.
const (
	DefaultPinDir                  = "/sys/fs/bpf/alioth"
	DefaultCgroupRoot              = "/sys/fs/cgroup"
	DefaultTunnelPort              = 4789 // RFC 7348
	DefaultConnectionsPerInterface = 2048
	DefaultKubeletPort             = 10250
	DefaultConnections             = 1 << 19
)

// ShareOfConnections returns the number of flows to shared services for each of so many pods
// that fits the table of DefaultConnections; 0 stands for any number up to 128.
func ShareOfConnections(pods uint32) uint32 {
	const usual, entriesPerFlow = 128, 2
	return max(1, DefaultConnections/entriesPerFlow/max(pods, usual))
}

// Config is the configuration of the programs when they are loaded.
type Config struct {
	// PinDir holds the pinned maps and links; it must lie on a bpf file
	// system that outlives the process. Default DefaultPinDir.
	PinDir string
	// CgroupRoot is the cgroup2 directory to whose processes' sockets the hooks apply.
	// Default DefaultCgroupRoot.
	CgroupRoot string
	// VXLANIfindex is the node's VXLAN device in external (collect_md) mode,
	// without learning. Required.
	VXLANIfindex int
	// UnderlayIfindex is the device that holds TunnelSource4. With it the programs push
	// and pop the outer headers over IPv4 themselves; with 0 the VXLAN device does so.
	UnderlayIfindex int
	// UnderlayIfindex6 is the device that holds TunnelSource6. With it the length of
	// packets is compared with the MTU of the route to a node over IPv6; with 0 the
	// kernel drops packets that are too long, uncounted.
	UnderlayIfindex6 int
	// UnderlayMAC is the MAC of the uplink: UnderlayIfindex or, without it, UnderlayIfindex6. The
	// uplink announces external addresses.
	UnderlayMAC state.MAC
	// FragmentIfindex and FragmentPeerIfindex are a pair of veth devices for this purpose only,
	// the first without offloads for its packets, with the largest possible MTU. The programs use
	// it to fragment tunnel packets over IPv6, if the MTU of the network is less than IPv6 needs,
	// or less than an IPv4 packet needs that may be fragmented. With 0 they drop such packets,
	// and send an error to the sender of the latter.
	FragmentIfindex, FragmentPeerIfindex int
	// TunnelPort is the UDP port of the tunnel. Default DefaultTunnelPort.
	TunnelPort uint16
	// LinkPort is the UDP port of VXLAN links outside of every VPC; 0: the node has none.
	LinkPort uint16
	// TunnelSource4 and TunnelSource6 are this node's addresses in the cluster. Without
	// them the route decides.
	TunnelSource4, TunnelSource6 netip.Addr
	// NodeShadow4 and NodeShadow6 are the node's own addresses towards shadow
	// addresses. A family without one has no shadow addresses.
	NodeShadow4, NodeShadow6 netip.Addr
	// NetnsCookie is the cookie of the node's network namespace. Default: the cookie of the
	// namespace of Open's caller.
	NetnsCookie uint64
	// KubeletPort is the TCP port at which the kubelet listens in the node's network
	// namespace. A process that does so, and has CAP_SYS_ADMIN, is identified as the
	// kubelet from then on until it ends. Default DefaultKubeletPort.
	KubeletPort uint16
	// GuardedPort is a TCP port of the node's loopback addresses. The programs keep the processes
	// in and below the cgroup2 directory PodCgroup from connecting to the port from the node's
	// network namespace. 0: no port is guarded.
	GuardedPort uint16
	PodCgroup   string
	// ConnectedDatagrams translates UDP sockets when they connect, on every interface. The caller
	// then has to end the sockets that StaleSockets returns. Without it pods' packets are
	// translated instead, and move to another backend by themselves.
	ConnectedDatagrams bool
	// ConnectionsPerInterface bounds the flows to services that one
	// interface may hold. Default DefaultConnectionsPerInterface.
	ConnectionsPerInterface uint32
	// Connections is the size of the node's table of flows to shared services; a flow
	// takes two entries. Only used entries take memory, beyond 16 bytes per entry. A
	// change replaces the maps, and loses the flows, with the first Apply. Default
	// DefaultConnections.
	Connections uint32
}

// WithDefaults returns the configuration with its zero fields filled in, or an error
// that names the field that cannot be used.
func (c Config) WithDefaults() (Config, error) {
	if c.PinDir == "" {
		c.PinDir = DefaultPinDir
	}
	if c.CgroupRoot == "" {
		c.CgroupRoot = DefaultCgroupRoot
	}
	if c.TunnelPort == 0 {
		c.TunnelPort = DefaultTunnelPort
	}
	if c.KubeletPort == 0 {
		c.KubeletPort = DefaultKubeletPort
	}
	if c.ConnectionsPerInterface == 0 {
		c.ConnectionsPerInterface = DefaultConnectionsPerInterface
	}
	if c.Connections == 0 {
		c.Connections = DefaultConnections
	}
	if err := errors.Join(c.checkDevices(), c.checkLimits(), c.checkFamilies()); err != nil {
		return c, err
	}
	if c.NetnsCookie == 0 {
		cookie, err := ownNetnsCookie()
		if err != nil {
			return c, err
		}
		c.NetnsCookie = cookie
	}
	return c, nil
}

// Uplink returns the device on whose network the node announces external addresses; 0: none.
func (c Config) Uplink() int { return cmp.Or(c.UnderlayIfindex, c.UnderlayIfindex6) }

func (c Config) checkLimits() error {
	if c.ConnectionsPerInterface > math.MaxInt32 {
		return fmt.Errorf("check configuration: ConnectionsPerInterface %d is above %d",
			c.ConnectionsPerInterface, math.MaxInt32)
	}
	if (c.GuardedPort == 0) != (c.PodCgroup == "") {
		return errors.New("check configuration: GuardedPort and PodCgroup go together")
	}
	return nil
}

func (c Config) checkDevices() error {
	if c.VXLANIfindex <= 0 || c.VXLANIfindex > math.MaxInt32 {
		return fmt.Errorf("check configuration: VXLANIfindex %d is no device index", c.VXLANIfindex)
	}
	for name, ifindex := range map[string]int{
		"UnderlayIfindex": c.UnderlayIfindex, "UnderlayIfindex6": c.UnderlayIfindex6,
		"FragmentIfindex": c.FragmentIfindex, "FragmentPeerIfindex": c.FragmentPeerIfindex,
	} {
		if ifindex < 0 || ifindex > math.MaxInt32 {
			return fmt.Errorf("check configuration: %s %d is no device index", name, ifindex)
		}
	}
	if (c.FragmentIfindex == 0) != (c.FragmentPeerIfindex == 0) {
		return errors.New("check configuration: FragmentIfindex and FragmentPeerIfindex go together")
	}
	if c.UnderlayIfindex != 0 && !c.TunnelSource4.IsValid() {
		return errors.New("check configuration: UnderlayIfindex needs a TunnelSource4")
	}
	if c.UnderlayIfindex6 != 0 && !c.TunnelSource6.IsValid() {
		return errors.New("check configuration: UnderlayIfindex6 needs a TunnelSource6")
	}
	return nil
}

func (c Config) checkFamilies() error {
	for name, ip := range map[string]netip.Addr{"NodeShadow4": c.NodeShadow4, "TunnelSource4": c.TunnelSource4} {
		if ip.IsValid() && !ip.Unmap().Is4() {
			return fmt.Errorf("check configuration: %s %s is no IPv4 address", name, ip)
		}
	}
	for name, ip := range map[string]netip.Addr{"NodeShadow6": c.NodeShadow6, "TunnelSource6": c.TunnelSource6} {
		if ip.IsValid() && ip.Unmap().Is4() {
			return fmt.Errorf("check configuration: %s %s is no IPv6 address", name, ip)
		}
	}
	return nil
}

// constants returns the configuration as the programs read it.
func (c Config) constants() (bpf.AliothConfig, error) {
	second, err := jiffiesPerSecond()
	if err != nil {
		return bpf.AliothConfig{}, err
	}
	k := bpf.AliothConfig{
		NetnsCookie:             c.NetnsCookie,
		LingerJiffies:           second,
		VxlanIfindex:            uint32(c.VXLANIfindex),
		UnderlayIfindex:         [bpf.AliothFamilyFAMILY_LEN]uint32{uint32(c.UnderlayIfindex), uint32(c.UnderlayIfindex6)},
		FragmentIfindex:         uint32(c.FragmentIfindex),
		UnderlayMac:             c.UnderlayMAC,
		ConnectionsPerInterface: c.ConnectionsPerInterface,
		TunnelPort:              bpf.NetworkOrder(c.TunnelPort),
		LinkPort:                bpf.NetworkOrder(c.LinkPort),
		KubeletPort:             c.KubeletPort,
		GuardedPort:             bpf.NetworkOrder(c.GuardedPort),
	}
	if c.ConnectedDatagrams {
		k.ConnectedDatagrams = 1
	}
	for family, ip := range []netip.Addr{c.NodeShadow4, c.NodeShadow6} {
		k.NodeShadow[family].B = ip.As16() // zero without one
	}
	for family, ip := range []netip.Addr{c.TunnelSource4, c.TunnelSource6} {
		k.TunnelSource[family].B = ip.As16() // zero without one
	}
	return k, nil
}

// jiffiesPerSecond returns the kernel's tick rate, a build option that the kernel
// reports nowhere reliably. The coarse clock advances once per tick and reports that as
// its resolution.
func jiffiesPerSecond() (uint64, error) {
	var resolution unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &resolution); err != nil {
		return 0, fmt.Errorf("read resolution of coarse clock: %w", err)
	}
	if resolution.Nano() <= 0 {
		return 0, fmt.Errorf("read resolution of coarse clock: %d ns", resolution.Nano())
	}
	return uint64(math.Round(1e9 / float64(resolution.Nano()))), nil
}

// ownNetnsCookie returns the cookie of the calling thread's network namespace.
func ownNetnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket for the namespace cookie: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read cookie of the network namespace: %w", err)
	}
	return cookie, nil
}

// PreparePinDir makes the pin directories. They have to be on a bpf file system.
func PreparePinDir(dir string) error {
	if err := CheckPinDir(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(LinkDir(dir), 0o700); err != nil {
		return fmt.Errorf("make pin directory: %w", err)
	}
	return nil
}

// CheckPinDir returns an error if a pin directory, which may be missing, is not on a bpf
// file system. Pins elsewhere are impossible, and a bpf file system mounted here would
// vanish with the caller's mount namespace.
func CheckPinDir(dir string) error {
	var fs unix.Statfs_t
	parent := dir
	for {
		err := unix.Statfs(parent, &fs)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || parent == filepath.Dir(parent) {
			return fmt.Errorf("look at pin directory %s: %w", dir, err)
		}
		parent = filepath.Dir(parent)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("use pin directory %s: not on a bpf file system; "+
			"run 'mount -t bpf bpf /sys/fs/bpf' on the host", dir)
	}
	return nil
}

// LinkDir returns the directory of pinned links.
func LinkDir(pinDir string) string { return filepath.Join(pinDir, "links") }
