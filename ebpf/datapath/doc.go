// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datapath loads the BPF programs of a node, keeps them attached, and
// makes their maps equal to a State.
//
// # Programs and hooks
//
//	 pod a              pod b                          other nodes
//	 eth0               eth0                             underlay
//	  |                  ^                                  |
//	  |                  | peer redirect                    |
//	==|==================|==================================|=====
//	  v                  |                                  v
//	[from_pod] -- address table --+--- local --> b    [from_underlay] --+
//	  |   |                       +--- remote: push         | unusual   |
//	  |   |                            or VXLAN             v           |
//	  |   +- answers ARP, ND,                          VXLAN device     |
//	  |      a gateway's echo                          [from_tunnel]    |
//	  |                                                     +-----------+-> local pods
//	  |
//	  | source becomes the shadow address
//	  |   to the node's shadow    no bare SYN, mark 0
//	  |   to a shared service     destination becomes a backend, MarkShared
//	  |   to the outside          nothing that is closed, MarkEgress;
//	  |                           of the default VPC MarkNode
//	  v
//	host stack ------ routes, netfilter ------ underlay
//	  |
//	  | destination is the shadow
//	  v
//	[to_pod]  destination becomes the pod's address, source the service's
//	  |
//	  v
//	 pod a
//
// [from_pod] (clsact ingress) and [to_pod] (clsact egress) are attached to the host end of every
// pod's veth. A netkit pair runs [from_pod] while the pod's end sends, and packets to a pod of
// the same node then leave by that pod's host end, past [to_pod]. [from_pod] is also attached to
// the far end of the node's own pair in the default VPC, [from_tunnel] (TCX ingress) to the VXLAN
// device, [from_underlay] (TCX ingress) to the device that holds the tunnel's IPv4 address, or
// its IPv6 address if it has no IPv4. [to_underlay] (TCX egress) is there too, for packets that
// must not leave: tunnel packets of the node's packet sockets, and packets that pods on the
// nodes' network send as a node. [fragment] (TCX ingress) is behind a pair of devices for packets
// that are to be fragmented over IPv6. At the cgroup root, connect4 and connect6 direct the
// kubelet's probes and lifecycle hooks to shadow addresses. With sendmsg, recvmsg and
// getpeername, 4 and 6, they translate Services at the socket: a socket that connects or sends to
// a service of its VPC is given a backend. If the kernel has no TCX, clsact replaces it.
//
// # Maps
//
//	alioth_interfaces    ifindex             -> VNI, addresses, shadows, MAC, flags
//	alioth_addresses     {VNI, ip}           -> local ifindex, node, or gateway
//	alioth_subnets       {VNI, prefix}       ranges whose table is complete here
//	alioth_vpc_ranges    {VNI, prefix}       all ranges of a VPC
//	alioth_vpcs          VNI                 -> egress, default VPC
//	alioth_nodes         ip                  known nodes
//	alioth_own           ip                  addresses of this node
//	alioth_node_ports    vni, port, proto, family  ports of nodes that lead into the VPC
//	alioth_announced     ip                  external addresses that are announced here
//	alioth_closed        {VNI or 0, prefix}  -> why egress must not go there
//	alioth_services      {VNI 0, vip, port}  -> id and number of backends
//	alioth_backends      {id, slot}          -> ip, port
//	alioth_connections   {VNI, pod, peer, ...} two entries per flow to a service
//	alioth_conn_opened, alioth_conn_ended    flows per interface
//	alioth_fragments     {ifindex, direction, slot} first fragments, for the later ones
//	alioth_sockets       socket              -> the services that it uses, and their backends
//	alioth_targets       {scope, ip, port}   -> shadow
//	alioth_netns         netns cookie        -> its VPCs and addresses, in order of attachment
//	alioth_guards        ifindex             -> sets of rules of network policies
//	alioth_identities    {VNI or 0, ip}      -> identity
//	alioth_policy_peers  {VNI, set, space, identity} -> list of ports
//	alioth_policy_nets   {VNI, set, prefix}  -> list of ports
//	alioth_policy_ports  {VNI, list, protocol, port} -> first rule of each tier
//	alioth_epochs        VNI modulo 4096     -> changes with the rules of the VPC
//	alioth_judged        {VNI, pod, peer, ...} one entry per flow and guarded interface
//	alioth_judged_opened, alioth_judged_ended these flows per interface
//	alioth_policy_hits   {VNI, set, rank}    packets and flows by rule, per CPU
//	alioth_counters      reason x direction, per CPU
//	alioth_drop_counters {ifindex, VNI, reason, direction}, per CPU
//	alioth_drops         sampled drop events
//	alioth_flows         sampled flows, while a client listens
//	alioth_layout        version of all of these
//
// A destination is looked up as address, then subnet, then VPC. A miss in a known
// subnet or VPC is a drop with a reason. A later version may hand such packets, and those
// to an address that has moved, to a node with the full table; learned addresses then
// come between the first two lookups.
//
// # Limits
//
// The translation to shadow addresses drops a packet with IPv4 options or an IPv6
// routing header, a protocol other than TCP, UDP, SCTP and ICMP, a fragment of TCP to
// the node or to a service, and a later fragment that precedes the first of its
// datagram. The checksum of a transport header that an ICMP error quotes is not
// translated. Inside a VPC all of these pass.
//
// # Life
//
// Maps and links are pinned, filters of clsact stay by themselves. Open replaces
// programs in place and adopts maps; Close leaves everything working; Uninstall
// removes it. C (in ebpf/src) owns every layout, the Go side is generated from
// it. Linux 6.1 or later.
package datapath
