// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// delegated decides an interface that CNI plugins make, by the configuration of a definition. It
// judges each use: the plugins run as root on the node, and the author of the definition is not
// trusted.
func (cfg Config) delegated(
	tx store.ReadTx,
	p *store.Pod,
	def *multinet.Definition,
	s annotations.NetworkSelection,
) (request, *tenancy.Refusal) {
	r := request{
		name: s.Interface, definition: s.Namespace + "/" + s.Name, delegate: &delegate{network: def.Reference()},
		defaultRoute: s.DefaultRoute, gateways: s.Gateways,
	}
	if refusal := cfg.delegable(tx, p, def); refusal != nil {
		return r, refusal
	}
	r.ignoreForeign(s)
	if holder := multinet.TenantsNumber(tx, def.Link); holder != "" {
		return r, notGranted("%s: %s %s: use another number", def, def.Link, holder)
	}
	if multinet.ExceedsLinks(tx, def, cfg.Links) {
		return r, notGranted(
			"%s: older definitions of the namespace have %d links, which is the limit (multiNetwork.tenantLimits.numbers of the chart): delete definitions that are not needed, or use a VLAN or VXLAN of theirs",
			def,
			cfg.Links,
		)
	}
	grants := cfg.Sharing.GrantsFor(tx, p.Namespace, def.Reference())
	if len(grants) == 0 {
		return r, notGranted(
			"%s, and no DelegationGrant names it or its namespace: ask the cluster administrator for one, or name a network of Alioth in its annotation %s",
			configured(def),
			annotations.NetworkKey,
		)
	}
	var refusal *tenancy.Refusal
	for _, grant := range grants {
		if refusal = r.build(p, def, s, grant); refusal == nil {
			return r, nil
		}
	}
	return r, refusal
}

// static decides an interface in a network of DANM with a static type. Nodes have the
// configuration, and build it with the parameters granted here. The type of a row is in lower case,
// as DANM compares types. Nodes compare the type in the file with the grant exactly.
func (cfg Config) static(tx store.ReadTx, p *store.Pod, r request) (request, *tenancy.Refusal) {
	if !unlabelled(p) {
		return r, notGranted(
			"%s is of type %q, which a CNI plugin serves, and pods of tenants can't use plugins: use a network of one of the types %v",
			r.net.Ref,
			r.net.Type,
			cfg.Kinds,
		)
	}
	for _, grant := range cfg.Sharing.GrantsFor(tx, p.Namespace, r.net.Reference()) {
		if slices.ContainsFunc(grant.Plugins, func(plugin string) bool { return strings.EqualFold(plugin, r.net.Type) }) {
			r.delegate = &delegate{network: r.net.Reference(), Delegate: netif.Delegate{File: &netif.DelegateFile{
				NetworkID: r.net.NetworkID, Type: r.net.Type, Plugins: grant.Plugins, IPAM: grant.IPAM, Inject: r.replacesIPAM(),
			}}}
			return r.leftToPlugins(), nil
		}
	}
	return r, notGranted(
		"%s is of type %q, and no DelegationGrant names it or its namespace with that plugin: ask the cluster administrator for one, or use one of the types %v",
		r.net.Ref,
		r.net.Type,
		cfg.Kinds,
	)
}

// replacesIPAM reports whether an interface of a static type has addresses of Alioth, or no
// addresses, so that the IPAM of the nodes' file is not called. As in DANM, this holds if the pod
// requests the address "none", or an address of a family that the network has a range of.
func (r request) replacesIPAM() bool {
	for _, family := range []struct {
		asked annotations.AddressRequest
		has   multinet.Range
	}{{r.IP, r.net.V4}, {r.IP6, r.net.V6}} {
		switch family.asked.Mode {
		case annotations.AddressNone:
			return true
		case annotations.AddressDynamic, annotations.AddressStatic:
			if family.has.Prefix.IsValid() {
				return true
			}
		case annotations.AddressAbsent:
		}
	}
	return false
}

// leftToPlugins returns the request without dynamic addresses, if the IPAM of the nodes' file
// chooses them. A literal address stays, and is refused: no file gives it.
func (r request) leftToPlugins() request {
	if !r.delegate.OwnIPAM() {
		return r
	}
	for _, asked := range []*annotations.AddressRequest{&r.IP, &r.IP6} {
		if asked.Mode == annotations.AddressDynamic {
			asked.Mode = annotations.AddressAbsent
		}
	}
	return r
}

// chosenByPlugins reports whether the operator does not know the addresses of the interface.
func (r request) chosenByPlugins() bool { return r.delegate != nil && r.delegate.OwnIPAM() }

// delegate is the part of a request that CNI plugins carry out: by a configuration, or by
// a file of the nodes.
type delegate struct {
	netif.Delegate
	network store.NetworkRef
	// link is the link of the nodes that takes the place of the plugin's master, nil for
	// none.
	link *cniconf.Link
}

// ofTenant reports whether a definition is in another namespace that has a tenant label, or
// is not known yet.
func ofTenant(tx store.ReadTx, p *store.Pod, def *multinet.Definition) bool {
	if def.Namespace == p.Namespace {
		return !unlabelled(p)
	}
	row := store.GetNamespace(tx, def.Namespace)
	return row == nil || tenancy.Labelled(row.Tenant)
}

// unlabelled reports whether the namespace of a pod has no tenant label.
func unlabelled(p *store.Pod) bool {
	return strings.HasPrefix(p.Tenant, v1alpha1.NamespaceTenantPrefix)
}

// delegable refuses definitions that no grant permits.
func (cfg Config) delegable(tx store.ReadTx, p *store.Pod, def *multinet.Definition) *tenancy.Refusal {
	switch {
	case !cfg.Delegation:
		return &tenancy.Refusal{Reason: v1alpha1.NetworkTypeReason, Message: fmt.Sprintf(
			"%s, which this cluster does not run (multiNetwork.delegation.enabled of the chart): name a network of Alioth in its annotation %s",
			configured(def),
			annotations.NetworkKey,
		)}
	case !unlabelled(p):
		return notGranted(
			"%s, which pods of tenants can't use: name a network of Alioth in its annotation %s",
			configured(def),
			annotations.NetworkKey,
		)
	case ofTenant(tx, p, def):
		return notGranted(
			"%s is in a namespace of a tenant, and definitions of tenants run no CNI plugins: select one of a namespace without a tenant label",
			configured(def),
		)
	case def.ResourceName != "":
		return &tenancy.Refusal{
			Reason:  v1alpha1.NetworkTypeReason,
			Message: fmt.Sprintf("%s needs a device, and nodes pass no devices to CNI plugins yet", def),
		}
	}
	return nil
}

// configured says which configuration a definition has.
func configured(def *multinet.Definition) string {
	if def.Config == "" {
		return fmt.Sprintf(
			"%s has neither the annotation %s nor spec.config, so it stands for a file of the nodes with a configuration for CNI plugins",
			def,
			annotations.NetworkKey,
		)
	}
	return def.String() + " has a configuration for CNI plugins"
}

// plain returns the keys that a selection may choose past the capabilities of plugins. The author
// of a definition, or of the file behind the definition, decides by capabilities which keys a pod
// may request. So a pod chooses addresses past them in its own namespace alone.
func plain(
	p *store.Pod,
	def *multinet.Definition,
	s annotations.NetworkSelection,
	grant *multinet.Grant,
) pluginconf.Keys {
	return pluginconf.Keys{
		IPs: len(s.IPs) > 0 && def.Namespace == p.Namespace,
		MAC: s.MAC != "" && slices.Contains(grant.Requests, v1alpha1.DelegationRequestMAC),
	}
}

// build makes the configuration for the plugins, as a grant permits it.
func (r *request) build(
	p *store.Pod,
	def *multinet.Definition,
	s annotations.NetworkSelection,
	grant *multinet.Grant,
) *tenancy.Refusal {
	if def.Config == "" {
		if refusal := permitted(def, s, grant, nil); refusal != nil {
			return refusal
		}
		return r.delegate.name(def, s, grant, plain(p, def, s, grant))
	}
	args, err := argsOf(s)
	if err != nil {
		return invalid("%s/%s: cni-args: %v", s.Namespace, s.Name, err)
	}
	runtime := runtimeOf(s)
	runtime.DeviceInfoFile = annotations.InterfaceFile(p.UID, s.Interface)
	built, err := pluginconf.Build(pluginconf.Request{
		Where: def.String() + ", spec.config", Text: []byte(def.Config), Name: def.Name,
		Allowed: pluginconf.Allowed{Plugins: grant.Plugins, IPAM: grant.IPAM}, Args: args, Runtime: runtime, Links: true,
		Plain: plain(p, def, s, grant),
	})
	if err != nil {
		return notGranted("%v (DelegationGrant %s)", err, grant.Name)
	}
	if refusal := permitted(def, s, grant, built.Unserved); refusal != nil {
		return refusal
	}
	r.delegate.Conf, r.delegate.link = built.JSON, built.Link
	r.delegate.IP, r.delegate.MAC = built.Plain.IP, built.Plain.MAC
	r.ignoreUnserved(def, s, built)
	return nil
}

// permitted refuses requests that a grant lacks. A request whose capability no plugin has reaches
// no plugin.
func permitted(
	def *multinet.Definition,
	s annotations.NetworkSelection,
	grant *multinet.Grant,
	unserved []string,
) *tenancy.Refusal {
	for _, one := range keysOf(s) {
		if slices.Contains(grantedKeys, one.name) && !slices.Contains(unserved, one.capability) &&
			!slices.Contains(grant.Requests, one.name) {
			return notGranted("%s: DelegationGrant %s does not permit the request %q (spec.requests)", def, grant.Name, one.name)
		}
	}
	return nil
}

// grantedKeys are the keys of a selection that need a grant.
var grantedKeys = []string{
	v1alpha1.DelegationRequestArgs,
	v1alpha1.DelegationRequestMAC,
	v1alpha1.DelegationRequestGUID,
}

// name has the nodes look for a configuration with the name of the definition, as NPWG 1.3 demands
// where spec.config is missing. The author of a definition chooses its name, and thereby any file
// of the nodes. So a grant has to name the definition itself.
func (d *delegate) name(
	def *multinet.Definition,
	s annotations.NetworkSelection,
	grant *multinet.Grant,
	may pluginconf.Keys,
) *tenancy.Refusal {
	if !grant.Names(def.Reference()) {
		return notGranted(
			"%s: DelegationGrant %s does not name it in spec.networks, which a file of the nodes needs",
			configured(def),
			grant.Name,
		)
	}
	runtime, err := json.Marshal(runtimeOf(s))
	if err != nil {
		return invalid("%s/%s: %v", s.Namespace, s.Name, err)
	}
	d.File = &netif.DelegateFile{
		Name: def.Name, Plugins: grant.Plugins, IPAM: grant.IPAM, Args: s.CNIArgs, Runtime: runtime, PlainIPs: may.IPs,
		PlainMAC: may.MAC,
	}
	return nil
}

func argsOf(s annotations.NetworkSelection) (args map[string]json.RawMessage, err error) {
	if len(s.CNIArgs) > 0 {
		err = json.Unmarshal(s.CNIArgs, &args)
	}
	return args, err
}

// runtimeOf returns the values that the pod requests of plugins with the capability.
func runtimeOf(s annotations.NetworkSelection) pluginconf.Runtime {
	values := pluginconf.Runtime{MAC: s.MAC, GUID: s.GUID}
	for _, ip := range s.IPs {
		values.IPs = append(values.IPs, ip.String())
	}
	for _, port := range s.PortMappings {
		mapping := pluginconf.PortMapping{HostPort: port.HostPort, ContainerPort: port.ContainerPort, Protocol: port.Protocol}
		if port.HostIP.IsValid() {
			mapping.HostIP = port.HostIP.String()
		}
		values.PortMappings = append(values.PortMappings, mapping)
	}
	if b := s.Bandwidth; b != (annotations.Bandwidth{}) {
		values.Bandwidth = &pluginconf.Bandwidth{
			IngressRate: uint64(
				b.IngressRate,
			), IngressBurst: uint64(b.IngressBurst), EgressRate: uint64(b.EgressRate), EgressBurst: uint64(b.EgressBurst),
		}
	}
	return values
}

func notGranted(format string, args ...any) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.DelegationNotGrantedReason, Message: fmt.Sprintf(format, args...)}
}

// maxConfigs is the size in bytes of all configurations of a pod together: its annotations
// have at most 256 KiB.
const maxConfigs = 128 << 10

// checkConfigs refuses configurations that the pod's annotation has no place for.
func checkConfigs(requests []request) *tenancy.Refusal {
	size := 0
	for _, r := range requests {
		if r.delegate == nil {
			continue
		}
		size += len(r.delegate.Conf)
		if file := r.delegate.File; file != nil {
			size += len(file.Args) + len(file.Runtime)
		}
	}
	if size > maxConfigs {
		return invalid(
			"the configurations of the CNI plugins have %d bytes together, and a pod may have %d: select fewer definitions",
			size,
			maxConfigs,
		)
	}
	return nil
}
