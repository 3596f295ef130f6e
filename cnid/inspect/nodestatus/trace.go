// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
)

// TracePath is the path at the daemon's socket that answers the POST of a Question with a
// PacketTrace.
const TracePath = "/trace/v1"

// Question is a packet that arrives at one of a node's programs. Exactly one of Pod, Outgoing and
// Tunnel is set, by the place of arrival.
type Question struct {
	// Pod sends it, in the form namespace/name, by the interface of that name;
	// the pod's first, when it is empty.
	Pod       string `json:"pod,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Outgoing: the node itself sends it into the default VPC.
	Outgoing bool `json:"outgoing,omitempty"`
	// Tunnel: another node has sent it.
	Tunnel *Tunnel `json:"tunnel,omitempty"`
	// To is the destination; Proto an IP protocol number: TCP (an opening), UDP, ICMP or ICMPv6
	// (an echo request). Size is the size of the IP packet in bytes, at least the size of its
	// headers. Not for Tunnel.
	To    netip.AddrPort `json:"to"`
	Proto uint8          `json:"proto,omitempty"`
	Size  int            `json:"size,omitempty"`
}

// Tunnel is a packet on its way between two nodes.
type Tunnel struct {
	VNI uint32 `json:"vni"`
	// From is the address of the sending node.
	From netip.Addr `json:"from"`
	// Frame begins with the inner Ethernet header.
	Frame []byte `json:"frame"`
}

// PacketTrace has the steps of a packet in one node's programs.
type PacketTrace struct {
	Node string `json:"node"`
	// At describes where the packet came to a program, Packet which packet it was.
	At     string `json:"at"`
	Packet string `json:"packet,omitempty"`
	// Facts are the rows of the maps that concern the packet.
	Facts []string `json:"facts,omitempty"`
	// Reason is the program's, as in metrics; Does describes it.
	Reason string `json:"reason"`
	Does   string `json:"does"`
	// Dropped: the path ends here, and Remedy is the remedy, if there is one.
	Dropped bool   `json:"dropped,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Next is the question for the next step, for NextNode to answer; none: the packet has
	// arrived, or has left the area of Alioth's decisions.
	Next     *Question `json:"next,omitempty"`
	NextNode string    `json:"nextNode,omitempty"`
}

// FetchTrace asks the daemon behind a socket for the way of a packet.
func FetchTrace(ctx context.Context, socket string, q Question) (step PacketTrace, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return step, fmt.Errorf("ask alioth-cnid: %w", err)
	}
	response, err := ask(ctx, socket, http.MethodPost, TracePath, bytes.NewReader(body))
	if err != nil {
		return step, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&step); err != nil {
		return step, fmt.Errorf("read answer of alioth-cnid: %w", err)
	}
	return step, nil
}

// TraceHandler serves the result of answer; the client gets its error.
func TraceHandler(answer func(context.Context, Question) (PacketTrace, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Question
		if r.Method != http.MethodPost {
			http.Error(w, "want POST", http.StatusMethodNotAllowed)
			return
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q); err != nil {
			http.Error(w, "read question: "+err.Error(), http.StatusBadRequest)
			return
		}
		step, err := answer(r.Context(), q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// An error means that the client does not read the answer.
		_ = json.NewEncoder(w).Encode(step)
	})
}
