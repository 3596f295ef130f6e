// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/said"
)

// KindPair is the kind of an attachment by a pair of devices. The node chooses the type
// of the devices.
const KindPair = "veth"

// KindDelegate is the kind of an attachment that other CNI plugins make.
const KindDelegate = "delegate"

// KindExternal is the kind of an attachment that another CNI plugin makes with addresses
// of Alioth: the node's IPAM API gives them to it.
const KindExternal = "external"

// maxAttachments is the maximum number of interfaces of a pod: the elements of both lists that
// users write, and the default network's interface.
const maxAttachments = 2*maxElements + 1

// Attachment is one interface of one pod, as the annotation
// alioth.dev/attachments lists it.
type Attachment struct {
	// Name of the interface in the pod, for example eth0.
	Name string `json:"name"`
	// AltName is a second name of the interface, requested by nic.name.
	AltName string `json:"altName,omitempty"`
	// Kind names the driver on the node, for example KindPair.
	Kind string `json:"kind"`
	// Network is namespace/name of the Network; "" where the pod uses the
	// default VPC directly.
	Network string `json:"network,omitempty"`
	// Definition is namespace/name of the NetworkAttachmentDefinition that the pod has
	// selected for the interface; "" for none.
	Definition string `json:"definition,omitempty"`
	// DefaultRoute reports that the pod requests its default routes by the interface.
	DefaultRoute bool `json:"defaultRoute,omitempty"`
	// NoDefaultRoute keeps default routes away from the interface: another interface of the
	// pod has them. An interface in a network of DANM has them in Link otherwise.
	NoDefaultRoute bool `json:"noDefaultRoute,omitempty"`
	// VPC is the name of the VPC object; "" outside of every VPC.
	VPC string `json:"vpc"`
	// Outside names the interface's network as kind/namespace/name, if that network is outside of
	// every VPC; as kind/name, if the network belongs to the whole cluster. Subnet is "" then.
	Outside string `json:"outside,omitempty"`
	// OutsideUID is the UID of that network.
	OutsideUID string `json:"outsideUID,omitempty"`
	// Subnet is the name of the Subnet object.
	Subnet string `json:"subnet"`
	// Addresses, at most one per family, IPv4 first, with the subnet's prefix
	// length.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways, one per family of Addresses.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// MAC of the interface, lower case with colons.
	MAC string `json:"mac"`
	// Link is the configuration of an interface outside of every VPC; nil in a VPC.
	Link *Link `json:"link,omitempty"`
	// Delegate is the input of CNI plugins for an interface that they make; nil for others.
	Delegate *Delegate `json:"delegate,omitempty"`
}

// Delegate is the input of CNI plugins: Conf or File.
type Delegate struct {
	// Conf is a complete list of configurations (CNI 1.1, section "Network configuration
	// format"): nodes pass it on unchanged.
	Conf json.RawMessage `json:"conf,omitempty"`
	// File is a configuration on the nodes' disks.
	File *DelegateFile `json:"file,omitempty"`
	// IP and MAC for the plugins in CNI_ARGS (pluginconf.Plain), "" for nothing.
	IP  string `json:"ip,omitempty"`
	MAC string `json:"mac,omitempty"`
}

// OwnIPAM reports whether the addresses of the interface are the plugins' to choose: no
// AttachmentClaim and no Address has them.
func (d *Delegate) OwnIPAM() bool { return d != nil && (d.File == nil || !d.File.Inject) }

// DelegateFile names a configuration in the nodes' folder of CNI configurations. NetworkID
// selects the configuration of a DANM network with a static type. Name selects the configuration
// of a NetworkAttachmentDefinition that has none of its own.
type DelegateFile struct {
	// NetworkID stands for the file <NetworkID>.conflist or <NetworkID>.conf.
	NetworkID string `json:"networkID,omitempty"`
	// Name is the name in the configuration.
	Name string `json:"name,omitempty"`
	// Type of the first plugin, in any case; "" for any.
	Type string `json:"type,omitempty"`
	// Plugins and IPAM are the granted types.
	Plugins []string `json:"plugins"`
	IPAM    []string `json:"ipam,omitempty"`
	// Inject: the plugin gets the addresses and routes of the attachment in place of the
	// file's IPAM. An attachment without addresses has no IPAM then.
	Inject bool `json:"inject,omitempty"`
	// Args and Runtime are the pod's requests: the fields Args and Runtime of
	// pluginconf.Request in JSON, nil without any.
	Args    json.RawMessage `json:"args,omitempty"`
	Runtime json.RawMessage `json:"runtime,omitempty"`
	// PlainIPs and PlainMAC: the addresses and the MAC of Runtime may reach plugins without
	// the capability, in CNI_ARGS (pluginconf.Request.Plain).
	PlainIPs bool `json:"plainIPs,omitempty"`
	PlainMAC bool `json:"plainMAC,omitempty"`
}

// States of IPv6 on an interface (Link.IPv6); "" is the driver's default.
const (
	// IPv6Off: the interface has no IPv6.
	IPv6Off = "off"
	// IPv6None: IPv6 is enabled, and Alioth configures no address.
	IPv6None = "none"
	// IPv6On: the interface has an IPv6 address of Alioth.
	IPv6On = "on"
)

// Link is the configuration of an interface outside of every VPC.
type Link struct {
	// Parent is the device of the node below the interface.
	Parent string `json:"parent,omitempty"`
	// Mode of the interface; "" for the driver's default.
	Mode string `json:"mode,omitempty"`
	// VLAN is the VLAN ID on Parent, 1 to 4094; 0 for none.
	VLAN uint32 `json:"vlan,omitempty"`
	// VXLAN is the VXLAN network identifier on Parent, 1 to 16777215; 0 for none.
	VXLAN uint32 `json:"vxlan,omitempty"`
	// Pool is the extended resource that has the device of the interface, "" for an
	// interface without one, and VF the settings of that device. VLAN is a setting too.
	Pool string `json:"pool,omitempty"`
	VF   *VF    `json:"vf,omitempty"`
	// MTU in bytes; 0 selects the MTU of Parent, or of the device.
	MTU int `json:"mtu,omitempty"`
	// IPv6 is one of the states above.
	IPv6 string `json:"ipv6,omitempty"`
	// Routes through the interface. Without a gateway the destination is on the link.
	Routes []Route `json:"routes,omitempty"`
	// Rules that select routing tables.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule selects a routing table for the packets of a source.
type Rule struct {
	// From is an address of the interface. 0.0.0.0/32 and ::/128 stand for the addresses of
	// the family that plugins choose (Delegate.OwnIPAM).
	From netip.Prefix `json:"from"`
	// Table is the number of the routing table.
	Table int `json:"table"`
}

// AttachmentHash returns the ElementHash of the element that FormatAttachments writes
// for an attachment.
func AttachmentHash(a Attachment) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encode attachment %s: %w", a.Name, err)
	}
	return ElementHash(text), nil
}

// ElementHash returns the SHA-256 of one element of the annotation alioth.dev/attachments, as
// 64 hexadecimal digits. Blanks between the tokens do not change the hash. The order of keys
// and the form of values do, so that two readers can't understand one hash differently. The
// hash depends on all keys, also on keys that this version doesn't know.
func ElementHash(element json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, element) != nil { // no JSON: no operator has written it
		compact.Reset()
		compact.Write(element)
	}
	sum := sha256.Sum256(compact.Bytes())
	return hex.EncodeToString(sum[:])
}

// FormatAttachments returns the text of the annotation alioth.dev/attachments.
func FormatAttachments(list []Attachment) (string, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode attachments: %w", said.Error(err))
	}
	return string(text), nil
}

// ParseAttachments reads the annotation alioth.dev/attachments. Unknown keys
// are accepted, because a newer operator may write them.
func ParseAttachments(text string) ([]Attachment, error) {
	return decodeAttachments[Attachment](text)
}

// HashedAttachment is an attachment with the hash of its element in the annotation.
type HashedAttachment struct {
	Attachment
	// Hash is the ElementHash of the text that was read. If another version has written
	// the text, it can differ from the AttachmentHash of Attachment.
	Hash string
}

// UnmarshalJSON decodes one element of the annotation, and computes its hash.
func (h *HashedAttachment) UnmarshalJSON(element []byte) error {
	h.Hash = ElementHash(element)
	return json.Unmarshal(element, &h.Attachment)
}

// ParseAttachmentsHashed reads the annotation alioth.dev/attachments as
// ParseAttachments does, with the hash of each element. An AttachmentClaim has the hash
// of the element that it allows.
func ParseAttachmentsHashed(text string) ([]HashedAttachment, error) {
	return decodeAttachments[HashedAttachment](text)
}

func decodeAttachments[T any, P interface {
	*T
	check() error
}](text string) ([]T, error) {
	var list []T
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("decode attachments: %w", said.Error(err))
	}
	if len(list) > maxAttachments {
		return nil, fmt.Errorf("decode attachments: there are %d, and a pod has at most %d interfaces", len(list), maxAttachments)
	}
	for i := range list {
		if err := P(&list[i]).check(); err != nil {
			return nil, fmt.Errorf("decode attachments: element %d: %w", i, err)
		}
	}
	return list, nil
}

// check returns an error for a text that no operator writes, and no message may repeat.
func (a *Attachment) check() error {
	list := []string{a.Name, a.AltName, a.Kind, a.Network, a.Definition, a.VPC, a.Outside, a.OutsideUID, a.Subnet, a.MAC}
	if l := a.Link; l != nil {
		list = append(list, l.Parent, l.Mode, l.Pool, l.IPv6)
		if l.VF != nil {
			list = append(list, l.VF.SpoofCheck, l.VF.Trust, l.VF.LinkState, l.VF.Proto)
		}
	}
	if d := a.Delegate; d != nil {
		list = append(list, d.IP, d.MAC)
		if f := d.File; f != nil {
			list = slices.Concat(list, []string{f.NetworkID, f.Name, f.Type}, f.Plugins, f.IPAM)
		}
	}
	for _, text := range list {
		if !said.IsShort(text) {
			return fmt.Errorf("a text of %d bytes is longer than %d bytes or can't be printed: %s", len(text), said.MaxQuoted, said.Quote(text))
		}
	}
	return nil
}
