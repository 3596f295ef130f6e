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

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/guest"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/release"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/waits"
)

// Options say what to bring up.
type Options struct {
	// Topology is underlay.DefaultTopology(2) when it is zero.
	Topology underlay.Topology
	// CNI is CNIAlioth when it is empty.
	CNI CNI
	// Versions are, where it is zero, those of the lab that is there, or the default ones.
	Versions Versions
	// Images are further image archives to load on every node.
	Images []string
	// Release is the commit whose chart and image are installed: those of the work tree when
	// it is empty. It matters with CNIAlioth alone.
	Release string
	// Dir is the lab's folder, DefaultDir when it is empty. Every node writes
	// below it, so it may not lie in /run, /var/log or another folder that
	// nodes have for themselves.
	Dir string
	// Progress receives one line per step; nil discards them.
	Progress func(line string)
}

// timeouts of single steps; all are far above what a slow machine needs.
const (
	serveTimeout   = 10 * time.Minute
	installTimeout = 10 * time.Minute
)

// Up brings up a lab in the work tree root, or completes one that is there.
func Up(ctx context.Context, root string, o Options) (*Cluster, error) {
	o.setDefaults(root)
	if err := o.Topology.Validate(); err != nil {
		return nil, err
	}
	if err := host.Check(ctx); err != nil {
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

// parts is what a lab is assembled from: folders of binaries, and images.
type parts struct {
	kubernetes, kubelet, containerd, helm string
	// aliothctl is a binary, "" where the lab has no Alioth.
	aliothctl string
	archives  []images.Archive
	// alioth is what is installed, empty where the lab has no Alioth.
	alioth release.Version
	// hypervisor is nil where no node is a virtual machine.
	hypervisor *guest.Hypervisor
}

// prepare builds what the lab runs; nothing of it is up yet.
func (c *Cluster) prepare(ctx context.Context, o Options) (parts, error) {
	var p parts
	cache, err := build.DefaultCache()
	if err != nil {
		return p, err
	}
	b := build.Builder{Root: c.root, Cache: cache, Progress: c.progress}
	if p.kubernetes, err = b.Ensure(ctx, build.Kubernetes(o.Versions.Kubernetes)); err != nil {
		return p, err
	}
	if p.kubelet, err = b.Ensure(ctx, build.Kubernetes(o.Versions.kubelet())); err != nil {
		return p, err
	}
	if p.containerd, err = b.Ensure(ctx, build.Containerd(o.Versions.Containerd)); err != nil {
		return p, err
	}
	if p.helm, err = b.Ensure(ctx, build.Helm()); err != nil {
		return p, err
	}
	dns, err := b.Ensure(ctx, build.CoreDNS())
	if err != nil {
		return p, err
	}
	ib := &images.Builder{Root: c.root, Out: c.path("images"), CoreDNS: dns + "/coredns", Progress: c.progress}
	p.archives, err = BuildImages(ctx, ib, o.refs(ib)...)
	if err != nil {
		return p, err
	}
	if o.CNI == CNIAlioth {
		p.aliothctl = ib.Program(images.Alioth, "aliothctl")
		if err := c.chooseVersion(ctx, o, cache, &p); err != nil {
			return p, err
		}
	}
	if o.Topology.Guests > 0 {
		p.hypervisor, err = c.prepareGuests(ctx, build.Cache{Dir: cache, Progress: c.progress}, p)
	}
	return p, err
}

// chooseVersion chooses what is installed. The image of a release is loaded beside that of the
// work tree, to which a test may change.
func (c *Cluster) chooseVersion(ctx context.Context, o Options, cache string, p *parts) (err error) {
	if o.Release == "" {
		p.alioth = c.workTree(p.archives)
		return nil
	}
	releases := release.Builder{Root: c.root, Cache: cache, Progress: c.progress}
	p.alioth, err = releases.Ensure(ctx, o.Release)
	p.archives = append(p.archives, p.alioth.Image)
	return err
}

// refs are the images that a lab with these options needs.
func (o Options) refs(b *images.Builder) []string {
	refs := []string{images.Pause}
	if o.CNI != CNINone {
		refs = append(refs, images.CoreDNS)
	}
	if o.CNI == CNIAlioth {
		refs = append(refs, images.Alioth, images.BusyBox)
	}
	if b.Available(images.TestTool) {
		refs = append(refs, images.TestTool)
	}
	return refs
}

// BuildImages builds several images.
func BuildImages(ctx context.Context, b *images.Builder, refs ...string) ([]images.Archive, error) {
	var archives []images.Archive
	for _, ref := range refs {
		archive, err := b.Build(ctx, ref)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// claim makes this lab the owner of its names on the host, or continues one
// that matches. Only afterwards does anything come into being on the host.
func (c *Cluster) claim(ctx context.Context, o Options, found bool) error {
	if found {
		old := c.state.get()
		if old.CNI != o.CNI || old.Topology.Lab != o.Topology.Lab || old.Topology.Octet != o.Topology.Octet || old.Topology.Guests != o.Topology.Guests || old.Topology.Nodes > o.Topology.Nodes {
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

// bringUp runs the steps of a start. Each finds out itself what is left to do.
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
	if err := o.Topology.Up(o.CNI == CNIBridge); err != nil {
		return err
	}
	// Other labs take this one for gone without its underlay, which is why
	// that comes first.
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
