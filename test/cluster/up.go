// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/waits"
)

// Options describe the lab to bring up.
type Options struct {
	// Topology is underlay.DefaultTopology(2) when it is zero.
	Topology underlay.Topology
	// CNI is CNIAlioth when it is empty.
	CNI CNI
	// Versions are the versions to run. The zero value means the versions of the present lab, or
	// the default ones.
	Versions Versions
	// Images are further image archives to load on every node.
	Images []string
	// Release is the commit whose chart and image are installed. If it is empty, chart and image of
	// the work tree are installed. It matters with CNIAlioth alone.
	Release string
	// DNSLater lets Up return while cluster DNS is still starting, for callers that need no DNS.
	DNSLater bool
	// Dir is the lab's folder, DefaultDir when it is empty. Every node writes
	// below it, so it may not lie in /run, /var/log or another folder that
	// nodes have for themselves.
	Dir string
	// Progress receives one line per step; nil discards them.
	Progress func(line string)
}

// timeouts of single steps; all are far above the needs of a slow machine.
const (
	serveTimeout   = 10 * time.Minute
	installTimeout = 10 * time.Minute
)

// Up brings up a lab in the work tree root, or completes an existing one.
func Up(ctx context.Context, root string, o Options) (*Cluster, error) {
	o.setDefaults(root)
	if err := o.Topology.Validate(); err != nil {
		return nil, err
	}
	if err := host.Check(ctx, o.Dir); err != nil {
		return nil, err
	}
	if missing := host.MissingPackages(); len(missing) > 0 {
		return nil, fmt.Errorf("missing Debian packages: %s: run: go run ./test/cluster/cmd/lab setup", strings.Join(missing, " "))
	}
	c, found, err := attach(root, o.Dir, o.Progress)
	if err != nil {
		return nil, err
	}
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := o.setVersions(found, c.Versions()); err != nil {
		return nil, err
	}
	parts, err := c.prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := c.claim(ctx, o, found); err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx, o, parts); err != nil {
		return nil, err
	}
	return c, nil
}

func (o *Options) setDefaults(root string) {
	if o.Topology == (underlay.Topology{}) {
		o.Topology = underlay.DefaultTopology(2)
	}
	if o.CNI == "" {
		o.CNI = CNIAlioth
	}
	if o.Dir == "" {
		o.Dir = DefaultDir(root)
	}
}

// setVersions completes the options. A lab keeps the versions that it came up with: its
// kubelets and the data of its containerd do not change versions while pods run.
func (o *Options) setVersions(found bool, old Versions) error {
	switch {
	case o.Versions != (Versions{}) && o.Topology.Guests > 0:
		return fmt.Errorf("the lab with virtual machines has the default versions only")
	case !found || o.Versions == old:
		return nil
	case o.Versions != (Versions{}):
		return fmt.Errorf("a lab with the versions %+v is here already, which cannot become one with %+v: run first: make down", old, o.Versions)
	}
	o.Versions = old
	return nil
}

// claim makes this lab the owner of its names on the host, or continues a matching one. Only
// afterwards does anything come into being on the host.
func (c *Cluster) claim(ctx context.Context, o Options, found bool) error {
	if found {
		old := c.state.get()
		if old.CNI != o.CNI || old.Topology.Lab != o.Topology.Lab || old.Topology.Octet != o.Topology.Octet || old.Topology.Guests != o.Topology.Guests ||
			old.Topology.Nodes > o.Topology.Nodes {
			return fmt.Errorf("a lab of %d nodes with --cni %s is here already, which cannot become one of %d nodes with --cni %s: run first: make down",
				old.Topology.Nodes, old.CNI, o.Topology.Nodes, o.CNI)
		}
	} else {
		if err := c.makeRoom(ctx, o.Topology); err != nil {
			return err
		}
		if err := os.RemoveAll(c.path("logs")); err != nil { // of the last run
			return fmt.Errorf("remove old logs: %w", err)
		}
	}
	return c.state.update(func(s *State) { s.Topology, s.CNI, s.Versions = o.Topology, o.CNI, o.Versions })
}

// bringUp runs the steps of a start. Each finds out itself whether it has work left.
func (c *Cluster) bringUp(ctx context.Context, o Options, p parts) error {
	if err := os.MkdirAll(c.path("logs"), 0o755); err != nil {
		return fmt.Errorf("make the folder for logs: %w", err)
	}
	if err := c.machines(ctx, o, p); err != nil {
		return err
	}
	if err := c.writeFiles(p); err != nil {
		return err
	}
	c.progress("starting the control plane and containerd")
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.startPlane(gctx, p) })
	for _, n := range c.Nodes() {
		if n.Guest {
			g.Go(func() error { return c.guestAnswers(gctx, n.Name) })
			continue
		}
		g.Go(func() error { return c.startRuntime(gctx, n.Name, p, o.Images) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := c.startGuestRuntimes(ctx, p, o.Images); err != nil {
		return err
	}
	c.progress("starting the kubelets")
	if err := c.startKubelets(ctx, p); err != nil {
		return err
	}
	return c.network(ctx, o, p)
}

// machines makes the underlay and the nodes' namespaces and cgroups.
func (c *Cluster) machines(ctx context.Context, o Options, p parts) error {
	c.progress(fmt.Sprintf("making %d nodes", o.Topology.Nodes))
	if err := o.Topology.Up(o.CNI.others()); err != nil {
		return err
	}
	// Without its underlay, other labs take this lab for gone. So the underlay comes first.
	if err := host.DefaultLedger().Borrow(o.Topology.Lab, node.MountPoints()); err != nil {
		return err
	}
	for _, name := range o.Topology.NodeNames() {
		if err := c.cgroups.Create(name); err != nil {
			return err
		}
		if c.isGuest(name) {
			if err := c.bootGuest(ctx, name, p.hypervisor); err != nil {
				return err
			}
			continue
		}
		if err := c.boot(name); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the keys, the kubeconfigs and the shortcuts for people.
func (c *Cluster) writeFiles(p parts) error {
	nodes := map[string][]netip.Addr{}
	for i, n := range c.Nodes() {
		nodes[n.Name] = []netip.Addr{n.IPv4, n.IPv6, c.Topology().SpareIP(i + 1)}
	}
	plane := c.plane(p.kubernetes)
	if err := plane.WriteFiles(nodes); err != nil {
		return err
	}
	config, err := os.ReadFile(plane.AdminKubeconfig())
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	if err := os.WriteFile(c.Kubeconfig(), config, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := c.writeScripts(p); err != nil {
		return err
	}
	c.Clients, err = objects.Connect(c.Kubeconfig())
	return err
}

func (c *Cluster) startPlane(ctx context.Context, p parts) error {
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(serveTimeout))
	defer cancel()
	plane := c.plane(p.kubernetes)
	first := plane.Machine.Name
	if _, err := c.start(ctx, first, plane.Etcd()); err != nil {
		return err
	}
	// The API server itself waits for etcd.
	api, err := c.start(ctx, first, plane.APIServer())
	if err != nil {
		return err
	}
	err = ready(ctx, "the API server is ready", api, func(ctx context.Context) error {
		_, err := c.Client().Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil {
		return err
	}
	c.progress("the API server is ready")
	if _, err := c.start(ctx, first, plane.ControllerManager()); err != nil {
		return err
	}
	_, err = c.start(ctx, first, plane.Scheduler())
	return err
}

func (c *Cluster) startKubelets(ctx context.Context, p parts) error {
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(serveTimeout))
	defer cancel()
	dns4, dns6 := clusterDNS()
	plane := c.plane(p.kubernetes)
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range c.Nodes() {
		membership := node.Membership{
			Bin: p.kubelet, IPs: []netip.Addr{n.IPv4, n.IPv6}, ClusterDNS: []netip.Addr{dns4, dns6},
			Authority: plane.AuthorityFile(), Slow: n.Guest,
		}
		membership.Cert, membership.Key, membership.Kubeconfig = plane.NodeFiles(n.Name)
		spec, err := c.machine(n.Name).Kubelet(membership)
		if err != nil {
			return err
		}
		child, err := c.start(ctx, n.Name, spec)
		if err != nil {
			return err
		}
		g.Go(func() error {
			return ready(ctx, n.Name+" has registered", child, func(ctx context.Context) error {
				return c.registered(ctx, n.Name)
			})
		})
	}
	return g.Wait()
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
