// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netpol has the commands about network policies of pods: they read objects from a cluster
// or from files, and print what package judgement answers.
package netpol

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
)

// errNotAllowed reports that policies do not allow a connection. The answer is the output.
var errNotAllowed = errors.New("the policies do not allow the connection")

// errPartial reports that a policy can't be read, so the verdict is not certain.
var errPartial = errors.New("the verdict leaves out policies that can't be read: correct the problems that are printed")

// IsFinding reports whether an error of a command is its answer, and not an error of the command
// itself.
func IsFinding(err error) bool { return errors.Is(err, errNotAllowed) || errors.Is(err, errFindings) }

// Command returns the command "netpol" with those below it. Users know the name from kubectl, where
// it is the short name of NetworkPolicies.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "netpol",
		Short: "Explain and lint network policies of pods",
	}
	cmd.AddCommand(explainCommand(), lintCommand())
	return cmd
}

// explaining is the command line of explain.
type explaining struct {
	source
	vpc, network string
}

func explainCommand() *cobra.Command {
	e := &explaining{source: newSource()}
	cmd := &cobra.Command{
		Use:   "explain FROM TO:PORT[/PROTOCOL]",
		Short: "Explain whether network policies allow a connection, the rule that decides, and a rule that would allow it",
		Long: `Explain whether network policies allow a new connection: for each direction the policy
and the rule that decide, and for a refused one a rule that would allow it. Replies of
an allowed connection are always allowed.

FROM and TO are pods (NAMESPACE/POD or pod/NAMESPACE/POD) or IPs; an IP of no pod is
outside. TO may be a Service (svc/NAMESPACE/NAME): each of its backends is judged, at
the port that the backend has. PORT is a number or the name of a port, PROTOCOL is
tcp, udp or sctp. An IPv6 address before a port is in brackets.

The command reads objects and sends no packet; aliothctl trace shows the path of a
packet. It needs the rights to read both pods, the Addresses of their nodes, their
namespaces with the NetworkPolicies, and all ClusterNetworkPolicies where the cluster
has this kind.

With --offline it reads files alone, to review policies before they are in a cluster.
FROM and TO may be controllers then, whose templates describe the pods, such as
deploy/NAMESPACE/NAME. Networks in the files tell the VPCs of pods; without any, all
pods are in the default VPC.

` + judgement.NotEnforced + `.

Exit status: 0 if the connection is allowed, to each backend of a Service; 1 if it is
not; 2 if the question can't be answered, or a policy can't be read.`,
		Example: `  aliothctl netpol explain shop/cart-7d9f svc/shop/db:5432
  aliothctl netpol explain shop/cart-7d9f 203.0.113.10:443
  aliothctl netpol explain 198.51.100.7 shop/web-0:http
  aliothctl netpol explain --offline -f manifests/ deploy/shop/cart sts/shop/db:5432
  helm template shop ./chart | aliothctl netpol explain --offline -f - deploy/shop/cart svc/kube-system/kube-dns:53/udp`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args[0], args[1]) },
	}
	e.addFlags(cmd)
	return cmd
}

func (e *explaining) addFlags(cmd *cobra.Command) {
	e.source.addFlags(cmd)
	cmd.Flags().StringVar(&e.vpc, "vpc", "",
		"VPC of IPs and of the pods' interfaces; default: the VPC of each pod's first interface")
	cmd.Flags().StringVar(&e.network, "network", "",
		"network outside of VPCs (NAMESPACE/NAME) that the connection uses: MultiNetworkPolicies decide there")
	cmd.MarkFlagsMutuallyExclusive("vpc", "network")
}

func (e *explaining) run(cmd *cobra.Command, from, to string) error {
	q, err := e.question(from, to)
	if err != nil {
		return err
	}
	objects, err := e.objects(cmd.InOrStdin(), func(o *judgement.Objects) error {
		return readCluster(o, e.kubeconfig, func(r *reader) error { return r.read(cmd.Context(), q) })
	})
	if err != nil {
		return err
	}
	answer, err := objects.Explain(q)
	if err != nil {
		return err
	}
	if err := e.print(cmd.OutOrStdout(), answer, func() string { return textOf(answer) }); err != nil {
		return err
	}
	if answer.Partial {
		return errPartial
	}
	if answer.Verdict != judgement.Allowed {
		cmd.SilenceErrors = true
		return errNotAllowed
	}
	return nil
}

func (e *explaining) question(from, to string) (q *judgement.Question, err error) {
	q = &judgement.Question{VPC: e.vpc, Network: e.network}
	if q.From, err = judgement.ParseRef(from); err != nil {
		return nil, fmt.Errorf("FROM %w", err)
	}
	if q.To, q.Port, err = judgement.ParseTarget(to); err != nil {
		return nil, fmt.Errorf("TO %w", err)
	}
	if e.network != "" && strings.Count(e.network, "/") != 1 {
		return nil, fmt.Errorf("--network %q: want NAMESPACE/NAME", e.network)
	}
	return q, nil
}
