// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otherplugin is the driver for interfaces that other CNI plugins make. It has no device
// on the node that Alioth knows, no program handles its packets, and it leads outside of every
// VPC. ifdriver.Link.Result has the plugins' report.
package otherplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
)

// Kind names the driver's kind.
const Kind ifdriver.Kind = "delegate"

// Driver implements ifdriver.Driver.
type Driver struct {
	delegates *delegate.Delegates
	files     host.ConfDir
	hostID    netns.ID
}

// New returns a Driver for the network namespace of the calling thread. files has the
// configurations of networks of DANM with a static type.
func New(delegates *delegate.Delegates, files host.ConfDir) (*Driver, error) {
	id, err := netns.Current()
	if err != nil {
		return nil, err
	}
	return &Driver{delegates: delegates, files: files, hostID: id}, nil
}

// Type returns the driver's entry in a registry. open is called once.
func Type(files host.ConfDir, open func() (*delegate.Delegates, error)) ifdriver.Type {
	return ifdriver.Type{Kind: Kind, Capabilities: capabilities, Maker: maker{files: files, open: open}}
}

// maker implements ifdriver.Maker.
type maker struct {
	ifdriver.Supported
	files host.ConfDir
	open  func() (*delegate.Delegates, error)
}

// Open implements ifdriver.Maker.
func (m maker) Open(ifdriver.Node) (ifdriver.Driver, error) {
	delegates, err := m.open()
	if err != nil {
		return nil, err
	}
	return New(delegates, m.files)
}

// capabilities: a plugin's interface is not made again in the same sandbox, because the
// plugin may have handed out other addresses meanwhile.
var capabilities = ifdriver.Capabilities{}

// Capabilities implements ifdriver.Driver.
func (d *Driver) Capabilities() ifdriver.Capabilities { return capabilities }

// HostName implements ifdriver.Driver.
func (d *Driver) HostName(string, string) string { return "" }

// Close implements ifdriver.Driver.
func (d *Driver) Close() {}

// Resize implements ifdriver.Driver.
func (d *Driver) Resize(context.Context, ifdriver.Spec) error { return errors.ErrUnsupported }

// Attach implements ifdriver.Driver by the plugins' ADD. Interfaces that are made side by side
// have their routes by Finish.
func (d *Driver) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	link, err := d.attach(ctx, spec)
	if err != nil {
		return ifdriver.Link{}, fmt.Errorf("attach %s of %s: %w", spec.IfName, spec.Description, err)
	}
	return link, nil
}

func (d *Driver) attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	if spec.Delegate == nil {
		return ifdriver.Link{}, errors.New("the attachment has no configuration of a CNI plugin")
	}
	if err := d.Detach(ctx, spec.ContainerID, spec.IfName); err != nil {
		return ifdriver.Link{}, fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	link, err := d.sandbox(spec.NetnsPath)
	if err != nil {
		return link, err
	}
	// A plugin might take over the interface, and its DEL would then remove it.
	exists, err := hasInterface(spec.NetnsPath, spec.IfName)
	if err != nil {
		return link, err
	}
	if exists {
		return link, ifdriver.Taken(spec.IfName)
	}
	if spec, link.Notices, err = d.complete(spec); err != nil {
		return link, err
	}
	if spec.Parent != "" { // a link, whose name is the node's own
		if spec.Delegate, err = onLink(spec.Delegate, spec.Parent); err != nil {
			return link, err
		}
	}
	link.Result, err = d.delegates.Add(ctx, attachmentOf(spec))
	if err != nil {
		return link, err
	}
	if err = made(link.Result, spec); err == nil && spec.Delegate.InOrder {
		err = d.route(&link, spec)
	}
	if err != nil {
		return link, errors.Join(err, d.Detach(context.WithoutCancel(ctx), spec.ContainerID, spec.IfName))
	}
	return link, nil
}

func onLink(wanted *ifdriver.Delegate, name string) (*ifdriver.Delegate, error) {
	conf, err := cniconf.OnLink(wanted.Conf, name)
	own := *wanted
	own.Conf = conf
	return &own, err
}

// sandbox identifies the pod's network namespace, which must not be the node's own: a
// plugin would change the node's interfaces.
func (d *Driver) sandbox(path string) (ifdriver.Link, error) {
	id, err := netns.Identify(path)
	if err != nil {
		return ifdriver.Link{}, err
	}
	if id == d.hostID {
		return ifdriver.Link{}, fmt.Errorf("%s is the node's own network namespace", path)
	}
	return ifdriver.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie}, nil
}

// complete builds the configuration of an interface from a file of the node. The file may change
// later: the built configuration is kept with the interface.
func (d *Driver) complete(spec ifdriver.Spec) (ifdriver.Spec, []ifdriver.Notice, error) {
	file := spec.Delegate.File
	if file == nil {
		return spec, nil, nil
	}
	found, err := d.find(file)
	if err != nil {
		return spec, nil, err
	}
	request := pluginconf.Request{
		Where: found.Path, Text: found.Text, Name: file.NetworkID, Type: file.Type,
		Allowed: pluginconf.Allowed{Plugins: file.Plugins, IPAM: file.IPAM}, IPAM: injected(spec),
		Plain: pluginconf.Keys{IPs: file.PlainIPs, MAC: file.PlainMAC},
	}
	err = errors.Join(read(file.Args, &request.Args), read(file.Runtime, &request.Runtime))
	request.Runtime.DeviceInfoFile = annotations.InterfaceFile(spec.PodUID, spec.IfName)
	if err != nil {
		return spec, nil, err
	}
	built, err := pluginconf.Build(request)
	if err != nil {
		return spec, nil, err
	}
	own := *spec.Delegate
	own.Conf, own.Args = built.JSON, append(slices.Clone(own.Args), built.Plain.Args()...)
	spec.Delegate = &own
	return spec, unserved(spec.IfName, found.Path, built), nil
}

// unserved returns events about requests of the pod without a plugin of a file that has the
// capability.
func unserved(ifName, path string, built pluginconf.Config) (list []ifdriver.Notice) {
	for _, capability := range built.Unserved {
		list = append(
			list,
			ifdriver.Notice{
				Reason: v1alpha1.RequestIgnoredReason,
				Message: fmt.Sprintf("interface %s: %q %s: %s; add it to %s on the node, or remove the request",
					ifName, capability, built.Plain.Fate(capability), pluginconf.Lacks(capability), path),
			},
		)
	}
	return list
}

// find returns the file with a configuration.
func (d *Driver) find(file *netif.DelegateFile) (host.ConfFile, error) {
	if file.Name != "" {
		return d.files.Named(file.Name)
	}
	return d.files.OfNetworkID(file.NetworkID)
}

// read decodes a request of the pod, as the operator has written it. It decodes nothing for a
// nil text.
func read(text []byte, into any) error {
	if text == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the pod's requests: %w", err)
	}
	return nil
}

// injected returns the addresses and routes that the operator has decided, nil if the
// plugin's own IPAM decides.
func injected(spec ifdriver.Spec) *pluginconf.IPAM {
	if !spec.Delegate.File.Inject {
		return nil
	}
	ipam := &pluginconf.IPAM{}
	for _, addr := range spec.Addrs {
		ipam.Addresses = append(ipam.Addresses, ipamconf.Address{Address: addr})
	}
	for _, route := range spec.Routes {
		if route.Table == 0 {
			ipam.Routes = append(ipam.Routes, ipamconf.Route{Dst: route.Dst, Gateway: route.Gateway})
		}
	}
	return ipam
}

func attachmentOf(spec ifdriver.Spec) delegate.Attachment {
	return delegate.Attachment{
		ContainerID: spec.ContainerID, IfName: spec.IfName, Request: spec.Request, PodUID: spec.PodUID,
		Network: spec.Network, Description: spec.Description, NetnsPath: spec.NetnsPath,
		Conf: spec.Delegate.Conf, Args: spec.Delegate.Args, Rules: spec.Rules,
	}
}

// made checks that the interface exists, or that the result has it: an interface of a device
// without a driver in the kernel can't be seen in the pod.
func made(result *ifdriver.Result, spec ifdriver.Spec) error {
	if iface, ok := result.InPod(spec.IfName); ok && (iface.PCIID != "" || iface.SocketPath != "") {
		return nil
	}
	exists, err := hasInterface(spec.NetnsPath, spec.IfName)
	if err == nil && !exists {
		err = fmt.Errorf(
			"%w: the pod has no interface %s after the ADD; use the plugin for its own interface name only, or another plugin",
			delegate.ErrIfName,
			spec.IfName,
		)
	}
	return err
}

func hasInterface(netnsPath, name string) (exists bool, err error) {
	pod, err := netns.Open(netnsPath)
	if err != nil {
		return false, err
	}
	defer func() { _ = pod.Close() }()
	err = pod.Do(func(ns.NetNS) error {
		list, err := net.Interfaces()
		for _, iface := range list {
			exists = exists || iface.Name == name
		}
		return err
	})
	return exists, err
}

// Detach implements ifdriver.Driver by the plugins' DEL, with the namespace or without. Rules
// outlive the interface, so they are removed apart from it.
func (d *Driver) Detach(ctx context.Context, containerID, ifName string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	kept, unknown := d.delegates.Get(containerID, ifName)
	rules := d.removeRules(containerID, ifName) // first: the kept result identifies them
	if err := d.delegates.Del(ctx, containerID, ifName); err != nil {
		return errors.Join(err, rules)
	}
	if unknown == nil {
		_ = d.files.Root.Remove(annotations.InterfaceFile(kept.PodUID, ifName)) // its end is the node's reboot else
	}
	return rules
}

// Check implements ifdriver.Driver. It compares namespace and interface with the kept result of
// Attach, and then runs the plugins' CHECK.
func (d *Driver) Check(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	kept, err := d.delegates.Get(spec.ContainerID, spec.IfName)
	if errors.Is(err, delegate.ErrNotKept) {
		return ifdriver.Link{}, fmt.Errorf("%w: %w: %w", ifdriver.ErrMismatch, ifdriver.ErrGone, err)
	}
	if err != nil {
		return ifdriver.Link{}, err
	}
	if !d.delegates.Alive(kept) {
		return ifdriver.Link{}, fmt.Errorf(
			"%w: %w: the network namespace of its ADD is not at %s",
			ifdriver.ErrMismatch,
			ifdriver.ErrGone,
			kept.NetnsPath,
		)
	}
	link := ifdriver.Link{NetnsInode: kept.Netns.Inode, NetnsCookie: kept.Netns.Cookie}
	if link.Result, err = kept.Result(); err != nil {
		return ifdriver.Link{}, fmt.Errorf("%w: %w", ifdriver.ErrMismatch, err)
	}
	spec.NetnsPath = kept.NetnsPath
	if err := made(link.Result, spec); err != nil {
		return ifdriver.Link{}, fmt.Errorf("%w: %w", ifdriver.ErrMismatch, err)
	}
	if err := checkRouting(link.Result, spec); err != nil {
		return ifdriver.Link{}, err
	}
	if err := d.delegates.Check(ctx, spec.ContainerID, spec.IfName); err != nil {
		return ifdriver.Link{}, fmt.Errorf("%w: %w", ifdriver.ErrMismatch, err)
	}
	return link, nil
}

// List implements ifdriver.Driver from the kept attachments, with interfaces whose namespace has
// ended, because their DEL is still to come.
func (d *Driver) List(context.Context) ([]ifdriver.Found, error) {
	all, err := d.delegates.All()
	if err != nil {
		return nil, err
	}
	var list []ifdriver.Found
	for _, kept := range all {
		found := ifdriver.Found{
			ContainerID: kept.ContainerID, IfName: kept.IfName, Request: kept.Request, PodUID: kept.PodUID,
			Network: kept.Network, NetnsPath: kept.NetnsPath,
		}
		if result, err := kept.Result(); err == nil {
			iface, _ := result.InPod(kept.IfName)
			found.MTU, found.Link.Result = iface.MTU, result
		}
		if d.delegates.Alive(kept) {
			found.Link.NetnsInode, found.Link.NetnsCookie = kept.Netns.Inode, kept.Netns.Cookie
		}
		list = append(list, found)
	}
	return list, nil
}
