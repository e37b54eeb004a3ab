"""Values and judgement: pure, standard library only, Python 3.9 and newer.

No torch, no files, no clock, no environment. The probe and the supervisor import this room and
nothing else of ours, because they travel with the job to other machines and other interpreters.
"""
