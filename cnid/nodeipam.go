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

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/drivers"
	"github.com/alioth-net/alioth/cnid/attach/external/nic"
	"github.com/alioth-net/alioth/cnid/cniserver"
	"github.com/alioth-net/alioth/cnid/install"
	"github.com/alioth-net/alioth/cnid/monitor"
	"github.com/alioth-net/alioth/cnid/nodeipam"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/hostnetwork"
	"github.com/alioth-net/alioth/cnid/nodeipam/loopback"
	"github.com/alioth-net/alioth/cnid/nodeipam/nodeinfo"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/delegated"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue/drain"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/cnid/periodic"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
)

// NodeIPAM is the configuration of the API by which other CNI plugins ask for addresses.
type NodeIPAM struct {
	// Enabled serves the API.
	Enabled bool
	// Groups are the API groups that have the node's NodeInfo.
	Groups []string
	// Devices are patterns of names (path.Match) of the devices that pods may get.
	Devices []string
	// Machine identifies the virtual machine; "" for what the SMBIOS has.
	Machine string
	// Ranges are what a pod with a delegated device reaches by its first interface, beside
	// the ranges of Services: nodes and other infrastructure.
	Ranges []netip.Prefix
	// Listen is a TCP address on loopback at which the API is served too, for processes of
	// the node; "" for none.
	Listen string
	// PodCgroup is the cgroup2 directory of all pods, whose processes are kept away from
	// Listen; "" looks for that of the kubelet.
	PodCgroup string
}

const (
	// pollDevices is how often devices are looked at without a notification.
	pollDevices = 30 * time.Second
	// keepEndpoints is how often the state of endpoints that are gone is forgotten.
	keepEndpoints = time.Minute
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

// withNodeIPAM adds the driver that the API needs. While the API is off it offers no device,
// and removes what was attached before.
func (c Config) withNodeIPAM(all attach.Registry) attach.Registry {
	if !c.NodeIPAM.Enabled {
		return drivers.WithExternal(all, nil)
	}
	return drivers.WithExternal(all, c.NodeIPAM.Devices)
}

// nodeIPAMSocket and queuedReleases are where plugins find the API, and leave releases while
// it is down.
func (c Config) nodeIPAMSocket() string {
	return filepath.Join(c.RunDir, filepath.Base(client.DefaultSocket))
}

// tokenFile has the token that clients of the TCP port send with each request.
func (c Config) tokenFile() string { return filepath.Join(c.RunDir, filepath.Base(wire.TokenFile)) }

func (c Config) endpointsDir() string { return filepath.Join(c.StateDir, "node-ipam-endpoints") }

// nodeIPAMFiles are all that the API and its plugin keep on the node.
func (c Config) nodeIPAMFiles() []string {
	devices := filepath.Join(c.RunDir, filepath.Base(delegated.DefaultDir))
	return []string{c.nodeIPAMSocket(), c.tokenFile(), devices, c.queuedReleases(), c.endpointsDir()}
}

func (c Config) queuedReleases() string {
	return filepath.Join(c.StateDir, filepath.Base(queue.DefaultDir))
}

// nodeIPAMPorts are the TCP ports of the API; none if it is off.
func (c Config) nodeIPAMPorts(log *slog.Logger) *loopback.Ports {
	if !c.NodeIPAM.Enabled {
		return &loopback.Ports{}
	}
	inPod := c.Kubeconfig == "" // the daemon has the rights of the pod's ServiceAccount then
	return loopback.Decide(c.NodeIPAM.Listen, inPod, func() (string, error) { return install.PodCgroup(c.CgroupRoot, c.NodeIPAM.PodCgroup) }, log)
}

// nodeIPAMModules are the area of addresses for other CNI plugins. If it is off, only what
// was attached before is released.
func (d *daemon) nodeIPAMModules(api nodeinfo.API) ([]module, error) {
	if !d.cfg.NodeIPAM.Enabled && !d.cfg.servedBefore() {
		return nil, nil
	}
	log := d.log.With("area", "node IPAM")
	states, err := endpoints.Open(d.cfg.endpointsDir(), log)
	if err != nil {
		return nil, err
	}
	service := nodeipam.New(nodeipam.Config{Manager: d.attachments, Store: d.store, Records: d.journal.Records, OfContainer: d.journal.OfContainer, Releases: d.journal.Releases, Log: log})
	host := hostnetwork.New(d.ownAddress, log)
	server := rest.New(rest.Config{Service: service, Endpoints: states, Node: d.nodeIPAMAnswers(host), Metrics: rest.NewMetrics(d.registry), Log: log})
	releases := drain.New(drain.Config{Dir: d.cfg.queuedReleases(), Release: func(ctx context.Context, r queue.Release) error {
		return server.Release(ctx, rest.Key(r))
	}, Metrics: drain.NewMetrics(d.registry), Log: log})
	area := module{name: "node IPAM", loops: []func(context.Context){releases.Run, d.keepEndpoints(states)}}
	if !d.cfg.NodeIPAM.Enabled {
		return []module{area}, nil
	}
	info := nodeinfo.New(nodeinfo.Config{
		Node: d.cfg.NodeName, API: api, Store: d.store, Groups: d.cfg.NodeIPAM.Groups, Machine: nodeinfo.Machine(d.cfg.NodeIPAM.Machine, nodeinfo.ProductUUID),
		Devices: d.offeredDevices, Every: pollDevices, Log: log,
	})
	watch := monitor.NetworkWatch{Changed: func() { host.Changed(); info.Look() }, Log: log}
	tcp := d.ports.Serving(d.cfg.tokenFile(), func(token string) http.Handler {
		return server.Handler(rest.Place{Token: token, Patience: rest.TCPPatience})
	}, d.progress.AwaitFirst, log)
	area.loops = append(area.loops, info.Run, watch.Run, tcp)
	area.servers = []func(context.Context) error{func(ctx context.Context) error { return d.serveNodeIPAM(ctx, server) }}
	return []module{area}, nil
}

// servedBefore reports whether the API has been on since Alioth was installed on the node. The
// journal does not tell: records that were lost are rebuilt later.
func (c Config) servedBefore() bool {
	_, err := os.Stat(c.queuedReleases())
	return err == nil
}

// nodeIPAMAnswers is what all answers have in common.
func (d *daemon) nodeIPAMAnswers(host *hostnetwork.Reader) func() answer.Node {
	infra := slices.Concat(d.cfg.NodeIPAM.Ranges, d.cfg.ServiceRanges)
	return func() answer.Node { return answer.Node{Host: host.Info(), Infra: infra} }
}

// ownAddress is the first InternalIP of this node; not valid while the node is not known.
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

// offeredDevices are the Ethernet addresses of the devices that pods may get.
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
