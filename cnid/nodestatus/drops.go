// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// DropsPath is where the daemon's socket answers a GET with the latest Drops, one
// JSON object a line; with ?follow=true it goes on as long as it is read.
const DropsPath = "/drops/v1"

// Drop is one dropped packet, of a sample of one per interface and reason in a
// second, with what is known of it. Fields may be added.
type Drop struct {
	Time time.Time `json:"time"`
	Node string    `json:"node"`
	// VPC is the name; empty when there was none to tell, or none that is here.
	VPC string `json:"vpc,omitempty"`
	// VNI of a packet from the tunnel is what the packet says.
	VNI uint32 `json:"vni,omitempty"`
	// Pod, in the form namespace/name, is whose interface dropped it; Device is
	// the device on the node.
	Pod    string `json:"pod,omitempty"`
	Device string `json:"device,omitempty"`
	// Direction and Reason are named as in metrics.
	Direction string `json:"direction"`
	Reason    string `json:"reason"`
	Means     string `json:"means"`
	Remedy    string `json:"remedy,omitempty"`
	// Proto is the protocol by its name at IANA, or its number. Of IPv6 it may be
	// that of the first extension header.
	Proto string `json:"proto,omitempty"`
	// Came is the packet as it came, Went what the shadow door made of it, if it
	// did, and Outer between which nodes it went through the tunnel.
	Came  *Ends `json:"came,omitempty"`
	Went  *Ends `json:"went,omitempty"`
	Outer *Ends `json:"outer,omitempty"`
	// Missed is how many earlier ones a reader has missed that was too slow.
	Missed uint64 `json:"missed,omitempty"`
}

// Ends are the two ends of a packet.
type Ends struct {
	Src End `json:"src"`
	Dst End `json:"dst"`
}

// End is one end of a packet, with the name of who has the address: a pod in the
// form namespace/name, or a node.
type End struct {
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port,omitempty"`
	Name string     `json:"name,omitempty"`
}

// String returns the address, with its port if it has one, and who has it.
func (e End) String() string {
	text := e.IP.String()
	if e.Port != 0 {
		text = netip.AddrPortFrom(e.IP, e.Port).String()
	}
	if e.Name != "" {
		text += " (" + e.Name + ")"
	}
	return text
}

func (e Ends) String() string { return fmt.Sprintf("%s > %s", e.Src, e.Dst) }

// String tells the drop in one line.
func (d Drop) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", d.Time.Format("15:04:05.000"), d.Node)
	if d.VPC != "" {
		b.WriteString(" VPC " + d.VPC)
	}
	fmt.Fprintf(&b, " %s", strings.ReplaceAll(d.Direction, "_", " "))
	if d.Pod != "" {
		b.WriteString(" " + d.Pod)
	}
	b.WriteString(":")
	if d.Came != nil {
		fmt.Fprintf(&b, " %s %s", d.Proto, d.Came)
	}
	if d.Went != nil {
		fmt.Fprintf(&b, " translated to %s", d.Went)
	}
	if d.Outer != nil {
		fmt.Fprintf(&b, " in the tunnel %s", d.Outer)
	}
	fmt.Fprintf(&b, " dropped: %s [%s]", d.Means, d.Reason)
	if d.Remedy != "" {
		b.WriteString("; " + d.Remedy)
	}
	return b.String()
}

// protocols have names in Drop.Proto.
var protocols = map[uint8]string{0: "HOPOPT", 1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 132: "SCTP"}

// Protocol names an IP protocol.
func Protocol(number uint8) string {
	if name, ok := protocols[number]; ok {
		return name
	}
	return "protocol " + strconv.Itoa(int(number))
}

// FetchDrops asks the daemon behind a socket for its latest drops, and hands
// them on one by one; with follow also those to come, until ctx ends.
func FetchDrops(ctx context.Context, socket string, follow bool, each func(Drop) error) error {
	response, err := ask(ctx, socket, http.MethodGet, DropsPath+"?follow="+strconv.FormatBool(follow), http.NoBody)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return DecodeDrops(response.Body, each)
}

// DecodeDrops reads drops, one JSON object a line, to the end.
func DecodeDrops(from io.Reader, each func(Drop) error) error {
	for decoder := json.NewDecoder(from); ; {
		var drop Drop
		err := decoder.Decode(&drop)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read drops: %w", err)
		}
		if err := each(drop); err != nil {
			return err
		}
	}
}
