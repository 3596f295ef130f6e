// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles has the end-to-end tests of bouncers and dividers, on a lab of four nodes. Two of
// them have the label of members. Ways of packets are seen at the switch of the lab, by VPC, so
// that most tests run at the same time; those that change labels, cut or reboot nodes or restart
// daemons run alone, before.
//
// The functional scenarios of Mizar, by their numbers there, and where each is covered. "All"
// are ICMP, TCP, UDP and HTTP in both directions and both families.
//
//	 1  two pods, their bouncer on a third node          TestHopsOverABouncer: exact ways, then all
//	 2  pods of one node; pods on the bouncer's node     TestHopsOverABouncer
//	 3  two bouncers share a subnet                      TestAllBouncersOfASubnetHaveAShare, TestPodsReachEachOtherOverBouncers
//	 4  several VPCs on the same nodes and bouncers      TestTenantsOnTheSameMembersStayApart
//	 5  two subnets and one divider                      TestHopsOverADivider
//	 6  three bouncers per subnet, three dividers        TestRolesComeAndGoUnderAStream
//	 7  members come and go under a TCP stream           TestRolesComeAndGoUnderAStream
//	 8  direct within a subnet, exact hops               TestHopsOverABouncer
//	 9  direct between subnets, exact hops               TestHopsOverADivider
//	10  a deleted pod leaves no row                      TestPodsEndAndOthersOfTheirNodeStay, and the comparison after each test
//	11  pods of a node end, others stay                  TestPodsEndAndOthersOfTheirNodeStay
//	12  a pod comes again with another address           TestPodsEndAndOthersOfTheirNodeStay
//	13  the end of Subnets and VPCs with roles           TestNothingIsLeftOfAVPCWithRoles
//	14  nodes and pods of the default VPC                TestTheDefaultVPCTakesRolesWhilePodsCommunicate; without roles: TestPodsWithoutALabelUseTheDefaultVPC of package e2e
//	18  Services whose client is on a bouncer's node:
//	    15, one backend to five                          TestAServiceSpreadsOverItsBackends
//	    16, 50 connections are spread                    TestAServiceSpreadsOverItsBackends
//	    17, a long connection keeps its backend          TestAServiceSpreadsOverItsBackends
//
// Without roles, 15 to 17 and 19 are in TestServicesBehaveAlikeAtSocketsAndInPackets of package
// e2e, and 20 is in its TestHostsAreBackendsAndClientsOfTheDefaultVPC.
package roles
