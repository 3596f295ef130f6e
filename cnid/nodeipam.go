// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/cniserver"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/forward/monitor"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/nodeipam"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/containers"
	"github.com/alioth-net/alioth/cnid/nodeipam/deviceplugin"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/hostnetwork"
	"github.com/alioth-net/alioth/cnid/nodeipam/loopback"
	"github.com/alioth-net/alioth/cnid/nodeipam/nodeinfo"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/nodenic"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue/drain"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/cnid/system/periodic"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
)

// NodeIPAM is the configuration of the API that gives addresses to other CNI plugins.
type NodeIPAM struct {
	// Enabled serves the API.
	Enabled bool
	// Groups are the API groups that have the node's NodeInfo.
	Groups []string
	// Devices are patterns of names (path.Match) of the devices that pods may get.
	Devices []string
	// Machine identifies the virtual machine; "" for the ID in the SMBIOS, or else the ID of the
	// node's system, or else the UID of the Node.
	Machine string
	// Ranges are the destinations that a pod with a delegated device reaches by its first
	// interface, beside the ranges of Services: nodes and other infrastructure. Without any it is
	// the network of the node's own address.
	Ranges []netip.Prefix
	// Listen is a TCP address on loopback at which the API is served too, for processes of
	// the node; "" for none.
	Listen string
	// PodCgroup is the cgroup2 directory of all pods. Its processes are kept away from Listen.
	// With "" the daemon looks for the kubelet's directory.
	PodCgroup string
	// KubeletPlugins is the kubelet's folder of device plugins, where the kubelet gets the
	// number of devices; "" for none.
	KubeletPlugins string
	// Deletes is the directory where clients of CNS leave a file for each release that nobody
	// took; "" for none.
	Deletes string
}

const (
	// pollDevices is the interval between looks at devices without a notification.
	pollDevices = 30 * time.Second
	// keepEndpoints is the interval between removals of the state of lost endpoints.
	keepEndpoints = time.Minute
	// pollKubelet is the interval between the daemon's checks for a restart of the kubelet.
	pollKubelet = 5 * time.Second
)

func (c NodeIPAM) check() error {
	for _, pattern := range c.Devices {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--node-ipam-devices: pattern %q: %w", pattern, err)
		}
	}
	for _, group := range c.Groups {
		if !slices.Contains(ipamapi.Groups, group) {
			return fmt.Errorf("--node-ipam-groups: want some of %v, got %q", ipamapi.Groups, group)
		}
	}
	if _, err := loopback.Parse(c.Listen); err != nil {
		return fmt.Errorf("--node-ipam-listen: %w", err)
	}
	return nil
}

// withNodeIPAM adds the driver that the API needs. While the API is off the driver offers no
// device, and removes earlier attachments.
func (c Config) withNodeIPAM(all ifdriver.Registry) ifdriver.Registry {
	if !c.NodeIPAM.Enabled {
		return drivers.WithExternal(all, nil)
	}
	return drivers.WithExternal(all, c.NodeIPAM.Devices)
}

// nodeIPAMSocket and queuedReleases return the paths where plugins find the API, and leave
// releases while the API is down.
func (c Config) nodeIPAMSocket() string {
	return filepath.Join(c.RunDir, filepath.Base(client.DefaultSocket))
}

// tokenFile returns the file with the token that clients of the TCP port send with each request.
func (c Config) tokenFile() string { return filepath.Join(c.RunDir, filepath.Base(wire.TokenFile)) }

func (c Config) endpointsDir() string { return filepath.Join(c.StateDir, "node-ipam-endpoints") }

// nodeIPAMFiles returns all that the API and its plugin keep on the node.
func (c Config) nodeIPAMFiles() []string {
	devices := filepath.Join(c.RunDir, filepath.Base(nodenic.DefaultDir))
	return []string{c.nodeIPAMSocket(), c.tokenFile(), devices, c.queuedReleases(), c.endpointsDir()}
}

func (c Config) queuedReleases() string {
	return filepath.Join(c.StateDir, filepath.Base(queue.DefaultDir))
}

// nodeIPAMPorts returns the TCP ports of the API; none if it is off.
func (c Config) nodeIPAMPorts(log *slog.Logger) *loopback.Ports {
	if !c.NodeIPAM.Enabled {
		return &loopback.Ports{}
	}
	inPod := c.Kubeconfig == "" // the daemon has the rights of the pod's ServiceAccount then
	return loopback.Decide(
		c.NodeIPAM.Listen,
		inPod,
		func() (string, error) { return install.PodCgroup(c.CgroupRoot, c.NodeIPAM.PodCgroup) },
		log,
	)
}

// nodeIPAMModules returns the modules for addresses of other CNI plugins. If the API is off, they
// only release earlier attachments. complete reports whether the store has all pods of the node,
// and the journal all attachments.
func (d *daemon) nodeIPAMModules(api nodeinfo.API, complete func() bool) ([]module, error) {
	if !d.cfg.NodeIPAM.Enabled && !d.cfg.servedBefore() {
		return nil, nil
	}
	log := d.log.With("area", "node IPAM")
	states, err := endpoints.Open(d.cfg.endpointsDir(), log)
	if err != nil {
		return nil, err
	}
	service := nodeipam.New(nodeipam.Config{Manager: d.attachments, Store: d.store, Journal: d.journal, Log: log})
	host := hostnetwork.New(d.ownAddress, log)
	server := rest.New(
		rest.Config{
			Service:   service,
			Endpoints: states,
			Node:      d.nodeIPAMAnswers(host),
			Metrics:   rest.NewMetrics(d.registry),
			Log:       log,
		},
	)
	area := module{
		name:  "node IPAM",
		loops: []func(context.Context){d.keepEndpoints(states), d.collectAbandoned(service, complete, log)},
	}
	area.loops = append(area.loops, d.drains(server, log)...)
	if !d.cfg.NodeIPAM.Enabled {
		return []module{area}, nil
	}
	info := nodeinfo.New(nodeinfo.Config{
		Node: d.cfg.NodeName, API: api, Store: d.store, Groups: d.cfg.NodeIPAM.Groups,
		Machine: nodeinfo.Machine(d.cfg.NodeIPAM.Machine, nodeinfo.ProductUUID, nodeinfo.MachineID),
		Devices: d.offeredDevices, Every: pollDevices, Log: log,
	})
	look := info.Look
	if d.cfg.NodeIPAM.KubeletPlugins != "" {
		plugin := deviceplugin.New(deviceplugin.Config{
			Dir: d.cfg.NodeIPAM.KubeletPlugins, Resource: string(multitenancyv1alpha1.DeviceTypeVnetNIC), Count: d.countDevices,
			Every: pollKubelet, Log: log,
		})
		look = func() { info.Look(); plugin.Look() }
		area.loops = append(area.loops, plugin.Run)
	}
	watch := monitor.NetworkWatch{Changed: func() { host.Changed(); look() }, Log: log}
	tcp := d.ports.Serving(d.cfg.tokenFile(), func(token string) http.Handler {
		return server.Handler(rest.Place{Token: token, Patience: rest.TCPPatience})
	}, d.progress.AwaitFirst, log)
	area.loops = append(area.loops, info.Run, watch.Run, tcp)
	area.servers = []func(context.Context) error{func(ctx context.Context) error { return d.serveNodeIPAM(ctx, server) }}
	return []module{area}, nil
}

// drains returns functions that apply releases that nobody took: releases of Alioth's plugin, and
// releases for CNS.
func (d *daemon) drains(server *rest.Server, log *slog.Logger) []func(context.Context) {
	var loops []func(context.Context)
	metrics := drain.NewMetrics(d.registry)
	dirs := []string{d.cfg.queuedReleases()}
	if d.cfg.NodeIPAM.Enabled && d.cfg.NodeIPAM.Deletes != "" {
		dirs = append(dirs, d.cfg.NodeIPAM.Deletes)
	}
	for _, dir := range dirs {
		loops = append(loops, drain.New(drain.Config{Dir: dir, Release: func(ctx context.Context, r queue.Release) error {
			return server.Release(ctx, rest.Key(r))
		}, Metrics: metrics, Log: log}).Run)
	}
	return loops
}

// collectAbandoned releases attachments whose DEL never came.
func (d *daemon) collectAbandoned(
	service *nodeipam.Service,
	complete func() bool,
	log *slog.Logger,
) func(context.Context) {
	running := func() (func(podUID, containerID string) bool, error) {
		pods, err := install.PodCgroup(d.cfg.CgroupRoot, d.cfg.NodeIPAM.PodCgroup)
		if err != nil {
			return nil, err
		}
		node, err := containers.On(pods)
		return node.Has, err
	}
	return func(ctx context.Context) {
		logged := ""
		periodic.Run(ctx, d.cfg.ReconcileEvery, nil, func() {
			if !complete() {
				return
			}
			err := service.ReleaseAbandoned(ctx, running)
			if err == nil {
				logged = ""
			} else if err.Error() != logged && ctx.Err() == nil { // one warning for each cause
				logged = err.Error()
				log.Warn("can't release every attachment whose DEL never came; trying again", "error", err)
			}
		})
	}
}

// servedBefore reports whether the API has been on since Alioth was installed on the node. The
// journal does not tell: records that were lost are rebuilt later.
func (c Config) servedBefore() bool {
	_, err := os.Stat(c.queuedReleases())
	return err == nil
}

// nodeIPAMAnswers returns a function for the common part of all answers.
func (d *daemon) nodeIPAMAnswers(host *hostnetwork.Reader) func() answer.Node {
	infra := slices.Concat(d.cfg.NodeIPAM.Ranges, d.cfg.ServiceRanges)
	return func() answer.Node {
		node := answer.Node{Host: host.Info(), Infra: infra}
		if own, err := netip.ParsePrefix(node.Host.Subnet); err == nil && len(d.cfg.NodeIPAM.Ranges) == 0 {
			node.Nearby = []netip.Prefix{own}
		}
		return node
	}
}

// ownAddress returns the first InternalIP of this node; not valid while the node is not known.
func (d *daemon) ownAddress() (address netip.Addr) {
	d.store.View(func(tx store.ReadTx) {
		if self := store.GetNode(tx, d.cfg.NodeName); self != nil && len(self.Addresses) > 0 {
			address = self.Addresses[0]
		}
	})
	return address
}

// serveNodeIPAM serves the API at its socket until ctx ends.
func (d *daemon) serveNodeIPAM(ctx context.Context, server *rest.Server) error {
	listener, err := cniserver.Listen(d.cfg.nodeIPAMSocket())
	if err != nil {
		return err
	}
	handler := server.Handler(rest.Place{Socket: true, Patience: rest.SocketPatience})
	return cniserver.Serve(ctx, listener, d.cfg.nodeIPAMSocket(), handler, d.attachments.Ready, d.log)
}

// offeredDevices returns the Ethernet addresses of the devices that pods may get.
func (d *daemon) offeredDevices() ([]string, error) {
	if len(d.cfg.NodeIPAM.Devices) == 0 {
		return nil, nil
	}
	now, err := nic.Read()
	if err != nil {
		return nil, err
	}
	list, err := now.Offered(d.cfg.NodeIPAM.Devices)
	var macs []string
	for _, device := range list {
		macs = append(macs, device.MAC.String())
	}
	return macs, err
}

// ServesOtherCNI reports whether the node has the label of the API: its pods belong to another
// CNI plugin.
func (d *daemon) ServesOtherCNI() (serves bool) {
	d.store.View(func(tx store.ReadTx) {
		self := store.GetNode(tx, d.cfg.NodeName)
		serves = d.cfg.NodeIPAM.Enabled && self != nil && self.NodeIPAM
	})
	return serves
}

// countDevices returns the number of devices that the pods of this node can have together: the
// offered devices, and the devices in pods. A node without the label of the API offers none.
func (d *daemon) countDevices() (int, error) {
	if !d.ServesOtherCNI() {
		return 0, nil
	}
	offered, err := d.offeredDevices()
	if err != nil {
		return 0, err
	}
	all := map[string]bool{}
	for _, mac := range offered {
		all[mac] = true
	}
	for _, rec := range d.journal.Records() {
		if rec.External && rec.Mode == ifdriver.ModeDevice {
			all[rec.MAC.String()] = true
		}
	}
	return len(all), nil
}

// keepEndpoints forgets the state of endpoints that are gone.
func (d *daemon) keepEndpoints(states *endpoints.Store) func(context.Context) {
	return func(ctx context.Context) {
		periodic.Run(ctx, keepEndpoints, nil, func() {
			attached := map[string]bool{}
			for _, rec := range d.journal.Records() {
				attached[rec.ContainerID] = true
			}
			if err := states.Keep(func(containerID string) bool { return attached[containerID] }); err != nil {
				d.log.Warn("can't forget the state of endpoints that are gone; trying again", "error", err)
			}
		})
	}
}
