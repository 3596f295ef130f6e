// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/guest"
	"github.com/alioth-net/alioth/test/cluster/release"
	"github.com/alioth-net/alioth/test/images"
)

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

// buildsAtOnce is how many things are built side by side. Each build uses all processors, but
// for its link, the steps that wait for one package, and the download of modules: the other
// one fills these gaps.
const buildsAtOnce = 2

// prepare builds what the lab runs; nothing of it is up yet.
func (c *Cluster) prepare(ctx context.Context, o Options) (parts, error) {
	var p parts
	b, err := c.builder()
	if err != nil {
		return p, err
	}
	missing, err := b.Missing(o.programs()...)
	if err != nil {
		return p, err
	}
	if len(missing) > 0 {
		b.Estimate = build.NewEstimate(append(missing, build.ProductShare)...)
		c.progress("building once what the lab runs; " + b.Estimate.String())
	}
	ib := &images.Builder{Root: c.root, Out: c.path("images"), Progress: c.progress, Estimate: b.Estimate}
	if err := c.buildAll(ctx, b, ib, o, &p); err != nil {
		return p, err
	}
	if o.CNI == CNIAlioth {
		p.aliothctl = ib.Program(images.Alioth, "aliothctl")
		if err := c.chooseVersion(ctx, o, b.Cache, &p); err != nil {
			return p, err
		}
	}
	if o.Topology.Guests > 0 {
		p.hypervisor, err = c.prepareGuests(ctx, build.Cache{Dir: b.Cache, Progress: c.progress}, p)
	}
	return p, err
}

// buildAll builds the programs and the images of a lab. Kubernetes takes as long as
// everything else together, so it is the first. The others share packages with the product,
// which comes before them.
func (c *Cluster) buildAll(ctx context.Context, b *build.Builder, ib *images.Builder, o Options, p *parts) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(buildsAtOnce)
	ensure := func(program build.Program, dir *string) {
		g.Go(func() (err error) {
			*dir, err = b.Ensure(ctx, program)
			return err
		})
	}
	refs := o.refs(ib)
	archives := make([]images.Archive, len(refs))
	ensure(build.Kubernetes(o.Versions.Kubernetes), &p.kubernetes)
	g.Go(func() (err error) {
		for i, ref := range refs {
			if ref == images.CoreDNS {
				continue
			}
			if archives[i], err = ib.Build(ctx, ref); err != nil {
				return err
			}
		}
		return nil
	})
	ensure(build.Helm(), &p.helm)
	if i := slices.Index(refs, images.CoreDNS); i >= 0 {
		g.Go(func() error {
			dir, err := b.Ensure(ctx, build.CoreDNS())
			if err != nil {
				return err
			}
			dns := *ib
			dns.CoreDNS = dir + "/coredns"
			archives[i], err = dns.Build(ctx, images.CoreDNS)
			return err
		})
	}
	ensure(build.Containerd(o.Versions.Containerd), &p.containerd)
	other := o.Versions.kubelet() != o.Versions.Kubernetes
	if other {
		ensure(build.Kubernetes(o.Versions.kubelet()), &p.kubelet)
	}
	err := g.Wait()
	if !other {
		p.kubelet = p.kubernetes
	}
	p.archives = archives
	return err
}

// programs are those that a lab with these options needs.
func (o Options) programs() []build.Program {
	return []build.Program{
		build.Kubernetes(o.Versions.Kubernetes), build.Containerd(o.Versions.Containerd), build.CoreDNS(), build.Helm(),
	}
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
