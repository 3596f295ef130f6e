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
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DropsPath and FlowsPath are paths at the daemon's socket. They answer a GET with the latest
// Packets that were dropped, and that went on, one JSON object a line. The query of a Watch adds
// later packets.
const (
	DropsPath = "/drops/v1"
	FlowsPath = "/flows/v1"
)

// Packet is one packet of a sample, with its known properties. Fields may be added.
type Packet struct {
	Time time.Time `json:"time"`
	Node string    `json:"node"`
	// VPC is the name; empty when the packet had none, or one that is not here.
	VPC string `json:"vpc,omitempty"`
	// VNI of a packet from the tunnel is the one in the packet's header.
	VNI uint32 `json:"vni,omitempty"`
	// Pod, in the form namespace/name, is the owner of the packet's interface; Device
	// is the device on the node.
	Pod    string `json:"pod,omitempty"`
	Device string `json:"device,omitempty"`
	// Direction and Reason are named as in metrics.
	Direction string `json:"direction"`
	Reason    string `json:"reason"`
	Means     string `json:"means"`
	Remedy    string `json:"remedy,omitempty"`
	// Routine: every host sends such packets by itself, and they need no attention.
	Routine bool `json:"routine,omitempty"`
	// Passed: it went on, and was not dropped.
	Passed bool `json:"passed,omitempty"`
	// Proto is the protocol by its name at IANA, or its number. For IPv6 it may be the number of
	// the first extension header.
	Proto string `json:"proto,omitempty"`
	// Came has the packet's ends as received, Went those after translation for a service
	// or a shadow address, if any, and Outer the two nodes if it goes through the tunnel.
	Came  *Ends `json:"came,omitempty"`
	Went  *Ends `json:"went,omitempty"`
	Outer *Ends `json:"outer,omitempty"`
	// Missed is the number of earlier packets that a slow reader has missed.
	Missed uint64 `json:"missed,omitempty"`
}

// Ends are the two ends of a packet.
type Ends struct {
	Src End `json:"src"`
	Dst End `json:"dst"`
}

// End is one end of a packet, with the name of the address's holder: a pod in the form
// namespace/name, or a node.
type End struct {
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port,omitempty"`
	Name string     `json:"name,omitempty"`
}

// String returns the address, with its port if it has one, and the holder.
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

// String describes the packet in one line.
func (p Packet) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", p.Time.Format("15:04:05.000"), p.Node)
	if p.VPC != "" {
		b.WriteString(" VPC " + p.VPC)
	}
	fmt.Fprintf(&b, " %s", strings.ReplaceAll(p.Direction, "_", " "))
	if p.Pod != "" {
		b.WriteString(" " + p.Pod)
	}
	b.WriteString(":")
	if p.Came != nil {
		fmt.Fprintf(&b, " %s %s", p.Proto, p.Came)
	}
	if p.Went != nil {
		fmt.Fprintf(&b, " translated to %s", p.Went)
	}
	if p.Outer != nil {
		fmt.Fprintf(&b, " in the tunnel %s", p.Outer)
	}
	fate := "dropped"
	if p.Passed {
		fate = "passed"
	}
	fmt.Fprintf(&b, " %s: %s [%s]", fate, p.Means, p.Reason)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// protocols have names in Packet.Proto.
var protocols = map[uint8]string{0: "HOPOPT", 1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 132: "SCTP"}

// Protocol names an IP protocol.
func Protocol(number uint8) string {
	if name, ok := protocols[number]; ok {
		return name
	}
	return "protocol " + strconv.Itoa(int(number))
}

// Watch is the time that the request waits for further packets.
type Watch struct {
	// Follow waits until the client ends the request.
	Follow bool
	// For is the time to wait otherwise.
	For time.Duration
}

// ReadWatch reads the query of a request for packets; invalid values count as absent.
func ReadWatch(query url.Values) (w Watch) {
	w.Follow, _ = strconv.ParseBool(query.Get("follow"))
	w.For, _ = time.ParseDuration(query.Get("for"))
	return w
}

func (w Watch) query() string {
	return url.Values{"follow": {strconv.FormatBool(w.Follow)}, "for": {w.For.String()}}.Encode()
}

// FetchPackets asks the daemon behind a socket for its latest packets of a path and calls
// each for every one, then for further packets until the end of w or of ctx.
func FetchPackets(ctx context.Context, socket, path string, w Watch, each func(Packet) error) error {
	response, err := ask(ctx, socket, http.MethodGet, path+"?"+w.query(), http.NoBody)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return DecodePackets(response.Body, each)
}

// DecodePackets reads packets, one JSON object a line, to the end.
func DecodePackets(from io.Reader, each func(Packet) error) error {
	for decoder := json.NewDecoder(from); ; {
		var packet Packet
		err := decoder.Decode(&packet)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read packets: %w", err)
		}
		if err := each(packet); err != nil {
			return err
		}
	}
}
